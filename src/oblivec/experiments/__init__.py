"""The paper's tables and figures, one file each, beside what the paper prints."""
