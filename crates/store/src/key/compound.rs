//! Encodings of types made of others: `Option`, `Reverse`, tuples.

use std::cmp::Reverse;

use super::{DecodeError, KeyCode};

const NONE: u8 = 0;
const SOME: u8 = 1;
const BAD_TAG: &str = "an option is 0 alone, or 1 and a value";

impl<T: KeyCode> KeyCode for Option<T> {
    type Ref<'a> = Option<T::Ref<'a>>;
    const FIXED_WIDTH: Option<usize> = None;

    fn type_name(name: &mut String) {
        name.push_str("option<");
        T::type_name(name);
        name.push('>');
    }

    fn to_ref(&self) -> Self::Ref<'_> {
        self.as_ref().map(T::to_ref)
    }

    fn encode_part(value: Self::Ref<'_>, out: &mut Vec<u8>) {
        match value {
            None => out.push(NONE),
            Some(value) => {
                out.push(SOME);
                T::encode_part(value, out);
            }
        }
    }

    fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode_part(bytes)? {
            NONE => Ok(None),
            SOME => T::decode_part(bytes).map(Some),
            _ => Err(DecodeError::new(BAD_TAG)),
        }
    }

    fn encode(value: Self::Ref<'_>, out: &mut Vec<u8>) {
        match value {
            None => out.push(NONE),
            Some(value) => {
                out.push(SOME);
                T::encode(value, out);
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        match bytes {
            [NONE] => Ok(None),
            [SOME, value @ ..] => T::decode(value).map(Some),
            _ => Err(DecodeError::new(BAD_TAG)),
        }
    }
}

/// Descending order. Also alone, the encoding is that of a part: only where no encoding is the
/// beginning of another one does inverting the bits turn the order round.
impl<T: KeyCode> KeyCode for Reverse<T> {
    type Ref<'a> = Reverse<T::Ref<'a>>;
    const FIXED_WIDTH: Option<usize> = T::FIXED_WIDTH;

    fn type_name(name: &mut String) {
        name.push_str("reverse<");
        T::type_name(name);
        name.push('>');
    }

    fn to_ref(&self) -> Self::Ref<'_> {
        Reverse(self.0.to_ref())
    }

    fn encode_part(value: Self::Ref<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        T::encode_part(value.0, out);
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }

    fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let upright: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        let mut rest = upright.as_slice();
        let value = T::decode_part(&mut rest)?;
        *bytes = bytes.split_at(bytes.len() - rest.len()).1;
        Ok(Reverse(value))
    }
}

/// The sum of fixed widths, if all are fixed.
const fn sum(widths: &[Option<usize>]) -> Option<usize> {
    let mut total = 0;
    let mut i = 0;
    while i < widths.len() {
        match widths[i] {
            Some(width) => total += width,
            None => return None,
        }
        i += 1;
    }
    Some(total)
}

macro_rules! tuple {
    ($($part:ident $value:ident),+) => {
        impl<$($part: KeyCode),+> KeyCode for ($($part,)+) {
            type Ref<'a> = ($($part::Ref<'a>,)+);
            const FIXED_WIDTH: Option<usize> = sum(&[$($part::FIXED_WIDTH),+]);

            fn type_name(name: &mut String) {
                name.push('(');
                $(
                    $part::type_name(name);
                    name.push(',');
                )+
                name.push(')');
            }

            #[inline]
            fn to_ref(&self) -> Self::Ref<'_> {
                let ($($value,)+) = self;
                ($($value.to_ref(),)+)
            }

            #[inline]
            fn encode_part(($($value,)+): Self::Ref<'_>, out: &mut Vec<u8>) {
                $($part::encode_part($value, out);)+
            }

            #[inline]
            fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(($($part::decode_part(bytes)?,)+))
            }
        }
    };
}

tuple!(A a, B b);
tuple!(A a, B b, C c);
tuple!(A a, B b, C c, D d);
tuple!(A a, B b, C c, D d, E e);
tuple!(A a, B b, C c, D d, E e, F f);
