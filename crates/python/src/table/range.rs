//! What the arguments of ranges say.

use std::ops::Bound as End;

use hedgerow::key::prefix;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::codec::Codec;

/// Where a range of keys begins and ends.
pub(crate) type KeyBounds = (End<Vec<u8>>, End<Vec<u8>>);

/// The keys from `start` up to `stop`, or with a prefix.
pub(crate) fn bounds(
    codec: &Codec,
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
    of: Option<&Bound<'_, PyAny>>,
) -> PyResult<KeyBounds> {
    let bound = |key: Option<&Bound<'_, PyAny>>| match key.filter(|key| !key.is_none()) {
        Some(key) => codec.encode_bound(key).map(|key| Some(key.into_owned())),
        None => Ok(None),
    };
    let (start, stop, of) = (bound(start)?, bound(stop)?, bound(of)?);
    match of {
        Some(_) if start.is_some() || stop.is_some() => {
            Err(PyTypeError::new_err("a range has bounds or a prefix, not both"))
        }
        Some(of) => {
            use hedgerow::key::KeyRange;
            let of = prefix(of);
            Ok((of.low().map(<[u8]>::to_vec), of.high().map(<[u8]>::to_vec)))
        }
        None => Ok((
            start.map_or(End::Unbounded, End::Included),
            stop.map_or(End::Unbounded, End::Excluded),
        )),
    }
}
