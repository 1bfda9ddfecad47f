//! Encodings of numbers, `bool`, `char` and `()`: all of a fixed width.

use super::{DecodeError, KeyCode, take};

/// A type of a fixed width that is passed by value: how to turn it into an array and back.
macro_rules! fixed {
    ($type:ty, $name:expr, $width:expr, $to:expr, $from:expr) => {
        impl KeyCode for $type {
            type Ref<'a> = $type;
            const FIXED_WIDTH: Option<usize> = Some($width);

            fn type_name(name: &mut String) {
                name.push_str($name);
            }

            #[inline]
            fn to_ref(&self) -> $type {
                *self
            }

            #[inline]
            fn encode_part(value: $type, out: &mut Vec<u8>) {
                let to: fn($type) -> [u8; $width] = $to;
                out.extend_from_slice(&to(value));
            }

            #[inline]
            fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                let from: fn([u8; $width]) -> Result<$type, DecodeError> = $from;
                from(take(bytes)?)
            }
        }
    };
}

macro_rules! unsigned {
    ($($type:ident)*) => {$(
        fixed!($type, stringify!($type), size_of::<$type>(), $type::to_be_bytes, |bytes| {
            Ok($type::from_be_bytes(bytes))
        });
    )*};
}

/// Flipping the sign bit, which is adding the smallest value, moves the negative numbers below the
/// others.
macro_rules! signed {
    ($($type:ident)*) => {$(
        fixed!(
            $type,
            stringify!($type),
            size_of::<$type>(),
            |value| (value ^ $type::MIN).to_be_bytes(),
            |bytes| Ok($type::from_be_bytes(bytes) ^ $type::MIN)
        );
    )*};
}

/// The order of `total_cmp`: the bits of a positive number are in order once the sign bit is set;
/// those of a negative one are in reverse order, so all of them are inverted.
macro_rules! float {
    ($($type:ident $bits:ident $signed:ident)*) => {$(
        fixed!(
            $type,
            stringify!($type),
            size_of::<$type>(),
            |value| {
                let bits = value.to_bits();
                let negative = (bits as $signed >> ($bits::BITS - 1)) as $bits;
                (bits ^ (negative | 1 << ($bits::BITS - 1))).to_be_bytes()
            },
            |bytes| {
                let bits = $bits::from_be_bytes(bytes);
                let negative = !((bits as $signed >> ($bits::BITS - 1)) as $bits);
                Ok($type::from_bits(bits ^ (negative | 1 << ($bits::BITS - 1))))
            }
        );
    )*};
}

unsigned!(u8 u16 u32 u64 u128);
signed!(i8 i16 i32 i64 i128);
float!(f32 u32 i32 f64 u64 i64);

fixed!(bool, "bool", 1, |value| [u8::from(value)], |[byte]| match byte {
    0 => Ok(false),
    1 => Ok(true),
    _ => Err(DecodeError::new("a bool is 0 or 1")),
});
fixed!(char, "char", 4, |value| u32::from(value).to_be_bytes(), |bytes| char::from_u32(
    u32::from_be_bytes(bytes)
)
.ok_or(DecodeError::new("a char is not a Unicode scalar value")));
fixed!((), "()", 0, |()| [], |[]| Ok(()));
