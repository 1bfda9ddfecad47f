//! C libraries of the system, loaded when an engine of theirs is asked for, so that building this
//! program needs none of them.
#![expect(unsafe_code, reason = "C libraries")]

use std::ffi::{CStr, c_char, c_void};

use libloading::Library;

use crate::engine::{Missing, Result};

/// Loads the first library that is there of some names.
pub(crate) fn load(names: &[&str], package: &str) -> Result<Library> {
    for name in names {
        // SAFETY: what the constructors of these libraries do is what any program that is linked
        // to them has done at its start.
        if let Ok(library) = unsafe { Library::new(*name) } {
            return Ok(library);
        }
    }
    let name = names.first().copied().unwrap_or_default();
    let what = format!("{name} is not there: `apt-get install {package}`, then run this again");
    Err(Missing(what).into())
}

/// Turns a message that a library has just given, if it has given one, into an error.
///
/// # Safety
/// It is null, or ends with a zero and is to be freed by `free`, by us.
pub(crate) unsafe fn check(
    fault: *mut c_char,
    free: unsafe extern "C" fn(*mut c_void),
) -> Result<()> {
    if fault.is_null() {
        return Ok(());
    }
    // SAFETY: as above.
    unsafe {
        let text = CStr::from_ptr(fault).to_string_lossy().into_owned();
        free(fault.cast());
        Err(text.into())
    }
}

/// Declares the functions of a library as a struct that loads them; `prefix` comes before each
/// name. The struct keeps the library.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions that are used of the library.
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
            // Never unloaded: its threads may still run.
            _library: std::mem::ManuallyDrop<libloading::Library>,
        }

        impl Functions {
            fn load(library: libloading::Library, prefix: &str) -> crate::engine::Result<Self> {
                Ok(Self {
                    $($name: {
                        let name = format!("{prefix}_{}", stringify!($name));
                        // SAFETY: the type is the one that the library's header declares; the
                        // pointer lives as long as the library, which stands beside it.
                        *unsafe { library.get(name.as_bytes()) }?
                    },)*
                    _library: std::mem::ManuallyDrop::new(library),
                })
            }
        }
    };
}
pub(crate) use functions;
