"""Exact nearest neighbours by cosine, for vectors that arrive in blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_QUERIES_AT_ONCE = 2048
_FIRST_CHUNK = 256


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows at length 1; a zero row stays zero.

    Args:
        vectors: float32, shape (N, D).
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


class NearestNeighbours:
    """The nearest of all vectors shown so far, for each query.

    Memory is that of the queries and their neighbours, whatever the number of vectors. The products run on all of
    BLAS's threads. A vector only competes where it beats a query's worst neighbour so far, which is rare after the
    first few: selecting costs a small part of multiplying.

    Args:
        queries: float32, shape (Q, D), rows of length 1.
        count: neighbours a query.
        threshold: the smallest cosine of a neighbour; None for no limit.
    """

    def __init__(self, queries: NDArray[np.float32], count: int, threshold: float | None = None) -> None:
        self._queries = queries
        self._seen = 0
        floor = -np.inf if threshold is None else np.nextafter(np.float32(threshold), np.float32(-np.inf))
        # Rows in descending order of similarity; an empty place has the floor's, and index -1.
        self._similarities = np.full((len(queries), count), floor, dtype=np.float32)
        self._indices = np.full((len(queries), count), -1, dtype=np.int64)

    def add(self, vectors: NDArray[np.float32], own: NDArray[np.int64]) -> None:
        """Shows the next vectors.

        Args:
            vectors: float32, shape (N, D), rows of length 1.
            own: int64, shape (N,), the query that a vector is, which is not its own neighbour; -1 for none.
        """
        start = 0
        while start < len(vectors):
            # Never more than have been seen already, so that few of them beat the neighbours there are.
            stop = min(len(vectors), start + max(_FIRST_CHUNK, self._seen))
            for first in range(0, len(self._queries), _QUERIES_AT_ONCE):
                last = min(first + _QUERIES_AT_ONCE, len(self._queries))
                self._compete(slice(first, last), vectors[start:stop], own[start:stop])
            self._seen += stop - start
            start = stop

    def result(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The neighbours found.

        Returns:
            Indices, int64, shape (Q, count), nearest first and the earlier vector first among equals, -1 where there is
            none; and their cosines, float32, of the same shape.
        """
        return self._indices, self._similarities

    def _compete(self, rows: slice, chunk: NDArray[np.float32], own: NDArray[np.int64]) -> None:
        scores = self._queries[rows] @ chunk.T
        itself = np.flatnonzero((own >= rows.start) & (own < rows.stop))
        scores[own[itself] - rows.start, itself] = -np.inf
        better = np.flatnonzero(scores > self._similarities[rows, -1:])
        if not len(better):
            return
        row, column = np.divmod(better, len(chunk))
        touched, place = np.unique(row, return_inverse=True)
        best, indices = self._similarities[rows][touched], self._indices[rows][touched]
        count = best.shape[1]
        all_rows = np.concatenate([np.repeat(np.arange(len(touched)), count), place])
        all_scores = np.concatenate([best.ravel(), scores.ravel()[better]])
        all_indices = np.concatenate([indices.ravel(), column + self._seen])
        # Stable, and the neighbours there are come first: of equals the earlier vector stays.
        order = np.lexsort((-all_scores, all_rows))
        begins = np.searchsorted(all_rows[order], np.arange(len(touched)))
        winners = order[begins[:, None] + np.arange(count)]
        target = touched + rows.start
        self._similarities[target] = all_scores[winners]
        self._indices[target] = all_indices[winners]
