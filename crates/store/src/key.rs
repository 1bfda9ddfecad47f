//! Order-preserving encodings of typed keys, and typed tables on top of the byte tables.
