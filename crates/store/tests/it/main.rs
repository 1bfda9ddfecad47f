//! The one test binary of the library: whole stores through the public interface.
