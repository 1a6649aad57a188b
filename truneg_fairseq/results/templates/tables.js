"use strict";
// Sorts a table by the column whose heading is pressed, and filters its rows by what is typed.
const keyOf = (row, column) => {
  const text = row.cells[column].textContent;
  return [parseFloat(text.replace(/,/g, "").replace(/^[↑>]/, "").replace(/^↓/, "-")), text];
};
const compare = (left, right) => {
  const numbers = Number(Number.isNaN(left[0])) - Number(Number.isNaN(right[0]));
  if (numbers) return numbers;
  return (Number.isNaN(left[0]) ? 0 : left[0] - right[0]) || left[1].localeCompare(right[1]);
};
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
      rows.sort((left, right) => direction * compare(left[0], right[0]));
      body.append(...rows.map(([, row]) => row));
    });
  });
  const filter = table.closest(".table").querySelector("input");
  filter?.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
}
