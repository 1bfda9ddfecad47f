//! Little-endian loads and stores at byte offsets.
