"""Downloads, extraction and text formats: from raw files to one stream of documents."""
