//! Arguments as C's `getopt` takes them: letters after a dash, some with a value, between the other
//! arguments or before them, up to `--`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::error::Ending;

/// An option and its value.
pub(crate) type Given = (char, Option<OsString>);

/// Arguments that are taken one option after the other.
pub(crate) struct Arguments {
    /// Letters; a colon after one that takes a value.
    spec: &'static str,
    left: std::vec::IntoIter<OsString>,
    /// Letters of one argument that are still to be taken.
    cluster: Vec<u8>,
    others: Vec<OsString>,
}

impl Arguments {
    /// Over what follows the program's name.
    pub(crate) fn new(spec: &'static str, arguments: Vec<OsString>) -> Self {
        let left = arguments.into_iter();
        Self { spec, left, cluster: Vec::new(), others: Vec::new() }
    }

    /// The next option.
    pub(crate) fn next(&mut self) -> Result<Option<Given>, Ending> {
        while self.cluster.is_empty() {
            let Some(argument) = self.left.next() else { return Ok(None) };
            match argument.as_bytes() {
                b"--" => {
                    self.others.extend(self.left.by_ref());
                    return Ok(None);
                }
                [b'-', letters @ ..] if !letters.is_empty() => self.cluster = letters.to_vec(),
                _ => self.others.push(argument),
            }
        }
        let letter = char::from(self.cluster.remove(0));
        let takes_value = match self.spec.split_once(letter) {
            Some((_, after)) if letter != ':' => after.starts_with(':'),
            _ => return Err(Ending::usage(format!("invalid option -- '{letter}'"))),
        };
        if !takes_value {
            return Ok(Some((letter, None)));
        }
        let value = match std::mem::take(&mut self.cluster) {
            rest if rest.is_empty() => self.left.next(),
            rest => Some(OsString::from_vec(rest)),
        };
        match value {
            Some(value) => Ok(Some((letter, Some(value)))),
            None => Err(Ending::usage(format!("option requires an argument -- '{letter}'"))),
        }
    }

    /// The one argument that is no option.
    pub(crate) fn only(self) -> Result<OsString, Ending> {
        let mut others = self.others;
        match (others.pop(), others.is_empty()) {
            (Some(only), true) => Ok(only),
            _ => Err(Ending::Usage(None)),
        }
    }
}

/// The bytes of an option's value.
pub(crate) fn bytes(value: Option<&OsStr>) -> Vec<u8> {
    value.map(|value| value.as_bytes().to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(spec: &'static str, words: &[&str]) -> Result<(Vec<Given>, OsString), Ending> {
        let mut arguments = Arguments::new(spec, words.iter().map(OsString::from).collect());
        let mut given = Vec::new();
        while let Some(option) = arguments.next()? {
            given.push(option);
        }
        Ok((given, arguments.only()?))
    }

    #[test]
    fn letters_stand_alone_or_together_and_anywhere() {
        let (given, path) = taken("abs:", &["-ab", "path", "-sname", "-s", "-a", "-b"]).unwrap();
        let value = |text: &str| Some(OsString::from(text));
        let expected =
            [('a', None), ('b', None), ('s', value("name")), ('s', value("-a")), ('b', None)];
        assert_eq!(given, expected);
        assert_eq!(path, "path");
    }

    #[test]
    fn what_is_not_in_the_list_is_told() {
        assert!(matches!(taken("ab", &["-c", "p"]), Err(Ending::Usage(Some(_)))));
        assert!(matches!(taken("as:", &["-:", "p"]), Err(Ending::Usage(Some(_)))));
        assert!(matches!(taken("as:", &["p", "-s"]), Err(Ending::Usage(Some(_)))));
        assert!(matches!(taken("a", &["-a"]), Err(Ending::Usage(None))));
        assert!(matches!(taken("a", &["p", "q"]), Err(Ending::Usage(None))));
        assert_eq!(taken("a", &["--", "-a"]).unwrap().1, "-a");
        assert_eq!(taken("a", &["-"]).unwrap().1, "-");
    }
}
