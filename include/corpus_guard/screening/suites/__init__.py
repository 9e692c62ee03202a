"""Great Expectations suites as files: their format, the frame they are validated over, and the validation.

suite.py        the file format, and what is refused when a file is loaded
frame.py        the columns of the frame, one row for each version
validation.py   Great Expectations itself, asked which rows fail
structure.yaml  the suite of the check `structure`
"""
