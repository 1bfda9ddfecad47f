//! The manifest: an append-only log of edits. It defines the store; a file that it does not name is
//! an orphan. It is never changed in place: a new one takes its place by a rename.
//!
//! A record is `checksum u32, length u32, edits`. Its checksum starts from the manifest's random
//! salt and the record's place. Each record is flushed before the next one is written; so a record
//! that is not whole is either the last one, of an edit that was never acknowledged, or damage.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::version::{Edit, Net, Pinned, Sealed, Version};
use crate::checksum::crc32c;
use crate::coding::{put_u32, put_u64, u32_at, u64_at};
use crate::lsm::files::{Directory, Name};
use crate::lsm::log::segment::{Closed, Identity};
use crate::lsm::table::TableMeta;
use crate::lsm::varint::{self, Reader};
use crate::os::{DataFile, Open};
use crate::{Error, Result};

/// The header.
pub(crate) const MAGIC_OFFSET: usize = 0;
pub(crate) const VERSION_OFFSET: usize = 8;
pub(crate) const SALT_OFFSET: usize = 16;
pub(crate) const FEATURES_OFFSET: usize = 24;
pub(crate) const BACKUP_OFFSET: usize = 32;
pub(crate) const STORE_OFFSET: usize = 40;
pub(crate) const HEADER_SUM_OFFSET: usize = 60;
/// The first record stands here.
pub(crate) const HEADER_BYTES: usize = 64;

/// A record.
pub(crate) const RECORD_SUM_OFFSET: usize = 0;
pub(crate) const RECORD_LEN_OFFSET: usize = 4;
pub(crate) const RECORD_HEADER_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"HEDGEMAN";
const VERSION: u32 = 1;
/// A manifest is written anew when it is this many times as long as it then was, and this long.
const GROWTH: u64 = 4;
const GROWTH_BYTES_MIN: u64 = 256 << 10;
/// No manifest is longer.
const BYTES_MAX: u64 = 1 << 30;

const ADD_TABLE: u8 = 1;
const REMOVE_TABLE: u8 = 2;
const ADD_SEGMENT: u8 = 3;
const SEAL_SEGMENT: u8 = 4;
const ADD_VALUES: u8 = 5;
const REMOVE_SEGMENT: u8 = 6;
const FLUSHED: u8 = 7;
const NEXT_FILE: u8 = 8;
const MOVE_TABLE: u8 = 9;
const SET_PIN: u8 = 10;
const DROP_PIN: u8 = 11;

/// There may be pins.
const FEATURE_PINS: u64 = 1;

fn push_identity(bytes: &mut Vec<u8>, identity: &Identity) {
    varint::push(bytes, u64::from(identity.number));
    bytes.extend_from_slice(&identity.salt.to_le_bytes());
    varint::push(bytes, identity.first_seq);
}

fn identity(reader: &mut Reader<'_>) -> Option<Identity> {
    let (number, salt) = (reader.number_u32()?, reader.u64()?);
    Some(Identity { number, salt, first_seq: reader.number()? })
}

fn push_sealed(bytes: &mut Vec<u8>, sealed: &Sealed) {
    [sealed.len, sealed.last_seq, sealed.remap_len].iter().for_each(|&n| varint::push(bytes, n));
}

fn sealed(reader: &mut Reader<'_>) -> Option<Sealed> {
    let (len, last_seq) = (reader.number()?, reader.number()?);
    Some(Sealed { len, last_seq, remap_len: reader.number()? })
}

fn push_edit(bytes: &mut Vec<u8>, edit: &Edit) {
    let plain = |bytes: &mut Vec<u8>, tag, number| {
        bytes.push(tag);
        varint::push(bytes, number);
    };
    match edit {
        Edit::AddTable { level, meta } => {
            bytes.extend_from_slice(&[ADD_TABLE, *level]);
            meta.encode(bytes);
        }
        Edit::RemoveTable { number } => plain(bytes, REMOVE_TABLE, u64::from(*number)),
        Edit::MoveTable { number, level } => {
            plain(bytes, MOVE_TABLE, u64::from(*number));
            bytes.push(*level);
        }
        Edit::AddSegment(identity) => {
            bytes.push(ADD_SEGMENT);
            push_identity(bytes, identity);
        }
        Edit::SealSegment { number, sealed } => {
            plain(bytes, SEAL_SEGMENT, u64::from(*number));
            push_sealed(bytes, sealed);
        }
        Edit::AddValues { identity, sealed, origins } => {
            bytes.push(ADD_VALUES);
            push_identity(bytes, identity);
            push_sealed(bytes, sealed);
            varint::push(bytes, origins.len() as u64);
            origins.iter().for_each(|&origin| varint::push(bytes, u64::from(origin)));
        }
        Edit::RemoveSegment { number } => plain(bytes, REMOVE_SEGMENT, u64::from(*number)),
        Edit::Flushed { seq } => plain(bytes, FLUSHED, *seq),
        Edit::NextFile { number } => plain(bytes, NEXT_FILE, u64::from(*number)),
        Edit::SetPin { name, pinned } => {
            bytes.push(SET_PIN);
            varint::push_bytes(bytes, name);
            [pinned.seq, pinned.created].iter().for_each(|&n| varint::push(bytes, n));
        }
        Edit::DropPin { name } => {
            bytes.push(DROP_PIN);
            varint::push_bytes(bytes, name);
        }
    }
}

fn edit(reader: &mut Reader<'_>) -> Option<Edit> {
    Some(match reader.u8()? {
        ADD_TABLE => Edit::AddTable { level: reader.u8()?, meta: TableMeta::decode(reader)? },
        REMOVE_TABLE => Edit::RemoveTable { number: reader.number_u32()? },
        MOVE_TABLE => Edit::MoveTable { number: reader.number_u32()?, level: reader.u8()? },
        ADD_SEGMENT => Edit::AddSegment(identity(reader)?),
        SEAL_SEGMENT => Edit::SealSegment { number: reader.number_u32()?, sealed: sealed(reader)? },
        ADD_VALUES => {
            let (identity, sealed) = (identity(reader)?, sealed(reader)?);
            let mut origins = Vec::new();
            for _ in 0..reader.number()? {
                origins.push(reader.number_u32()?);
            }
            Edit::AddValues { identity, sealed, origins }
        }
        REMOVE_SEGMENT => Edit::RemoveSegment { number: reader.number_u32()? },
        FLUSHED => Edit::Flushed { seq: reader.number()? },
        NEXT_FILE => Edit::NextFile { number: reader.number_u32()? },
        SET_PIN => {
            let (name, seq) = (reader.bytes()?.to_vec(), reader.number()?);
            Edit::SetPin { name, pinned: Pinned { seq, created: reader.number()? } }
        }
        DROP_PIN => Edit::DropPin { name: reader.bytes()?.to_vec() },
        _ => return None,
    })
}

/// The edits of a record's content; `None` if it is none.
pub(crate) fn decode(content: &[u8]) -> Option<Vec<Edit>> {
    let mut reader = Reader::new(content);
    let mut edits = Vec::new();
    while !reader.is_empty() {
        edits.push(edit(&mut reader)?);
    }
    Some(edits)
}

fn record(salt: u64, offset: u64, edits: &[Edit]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; RECORD_HEADER_BYTES];
    edits.iter().for_each(|edit| push_edit(&mut bytes, edit));
    let len = u32::try_from(bytes.len());
    let len = len.map_err(|_| Error::argument("an edit of the manifest outgrew 4 GiB"))?;
    put_u32(&mut bytes, RECORD_LEN_OFFSET, len);
    let sum = crc32c(salt.wrapping_add(offset), &bytes[RECORD_LEN_OFFSET..]);
    put_u32(&mut bytes, RECORD_SUM_OFFSET, sum);
    Ok(bytes)
}

/// The length of the record at `offset`, header included; `None` if there is none.
fn record_at(bytes: &[u8], salt: u64, offset: usize) -> Option<usize> {
    let header = bytes.get(offset..offset.checked_add(RECORD_HEADER_BYTES)?)?;
    let len = u32_at(header, RECORD_LEN_OFFSET) as usize;
    let record = bytes.get(offset..offset.checked_add(len)?)?;
    let summed = record.get(RECORD_LEN_OFFSET..).filter(|_| len >= RECORD_HEADER_BYTES)?;
    let sum = crc32c(salt.wrapping_add(offset as u64), summed);
    (sum == u32_at(header, RECORD_SUM_OFFSET)).then_some(len)
}

/// What a manifest of this version needs of its readers.
fn features(version: &Version) -> u64 {
    if version.pins.is_empty() { 0 } else { FEATURE_PINS }
}

fn header(salt: u64, version: &Version, is_backup: bool) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[MAGIC_OFFSET..VERSION_OFFSET].copy_from_slice(&MAGIC);
    put_u32(&mut header, VERSION_OFFSET, VERSION);
    put_u64(&mut header, SALT_OFFSET, salt);
    put_u64(&mut header, FEATURES_OFFSET, features(version));
    header[BACKUP_OFFSET] = u8::from(is_backup);
    put_u64(&mut header, STORE_OFFSET, version.store);
    let sum = crc32c(0, &header[..HEADER_SUM_OFFSET]);
    put_u32(&mut header, HEADER_SUM_OFFSET, sum);
    header
}

/// The salt of a manifest with this header.
fn read_header(path: &Path, bytes: &[u8]) -> Result<u64> {
    let magic = bytes.get(MAGIC_OFFSET..VERSION_OFFSET);
    if bytes.len() < HEADER_BYTES || magic != Some(&MAGIC[..]) {
        let reason =
            "its manifest does not begin like one; if it was one, `hedgerow salvage` brings \
                      over what can still be read"
                .to_string();
        return Err(Error::NotAStore { path: path.to_path_buf(), reason });
    }
    if crc32c(0, &bytes[..HEADER_SUM_OFFSET]) != u32_at(bytes, HEADER_SUM_OFFSET) {
        return Err(Error::corrupt_at(path, 0, "the checksum of the manifest's header is wrong"));
    }
    let (version, features) = (u32_at(bytes, VERSION_OFFSET), u64_at(bytes, FEATURES_OFFSET));
    if version != VERSION || features & !FEATURE_PINS != 0 {
        let reason = format!("format version {version}, features {features:x}");
        return Err(Error::Unsupported { path: path.to_path_buf(), reason });
    }
    Ok(u64_at(bytes, SALT_OFFSET))
}

/// Reads the manifest of a directory: the version that it describes. `None` if there is none.
///
/// # Errors
/// If it cannot be read, is no manifest, or is damaged.
pub(crate) fn read(directory: &Arc<Directory>) -> Result<Option<Version>> {
    Ok(find(directory)?.map(|(version, _)| version))
}

/// The same, and where edits can be added: `None` if a new manifest has to take its place first,
/// because its end is torn, or it is that of a backup.
///
/// # Errors
/// As [`read`].
pub(crate) fn find(directory: &Arc<Directory>) -> Result<Option<(Version, Option<Extent>)>> {
    let Some((path, bytes)) = load(directory)? else { return Ok(None) };
    replay(directory, &path, &bytes).map(Some)
}

/// The tables and segments that any record of the manifest names, those too that are gone by now.
///
/// # Errors
/// As [`read`].
pub(crate) fn ever_named(directory: &Directory) -> Result<BTreeSet<Name>> {
    let mut named = BTreeSet::new();
    let Some((path, bytes)) = load(directory)? else { return Ok(named) };
    let (salt, mut at) = (read_header(&path, &bytes)?, HEADER_BYTES);
    while let Some(len) = record_at(&bytes, salt, at) {
        let edits = decode(&bytes[at + RECORD_HEADER_BYTES..at + len]).unwrap_or_default();
        named.extend(edits.iter().filter_map(Edit::adds));
        at += len;
    }
    Ok(named)
}

/// The bytes of a directory's manifest, and its path; `None` if there is none.
fn load(directory: &Directory) -> Result<Option<(PathBuf, Vec<u8>)>> {
    let path = directory.file(Name::Manifest);
    let file = match directory.system.open_data(&path, Open::Read, 0) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| Error::io("open", &path, e))?,
    };
    let len = file.len().map_err(|e| Error::io("ask for the length of", &path, e))?;
    if len > BYTES_MAX {
        return Err(Error::corrupt_at(&path, BYTES_MAX, "the manifest is too long to be one"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0).map_err(|e| Error::io("read", &path, e))?;
    Ok(Some((path, bytes)))
}

/// Whether the store of a directory was written by a backup and not opened since.
///
/// # Errors
/// If the manifest cannot be read.
pub(crate) fn is_backup(directory: &Directory) -> Result<bool> {
    let path = directory.file(Name::Manifest);
    let file = directory.system.open_data(&path, Open::Read, 0);
    let file = file.map_err(|e| Error::io("open", &path, e))?;
    let mut header = [0; HEADER_BYTES];
    file.read_at(&mut header, 0).map_err(|e| Error::io("read", &path, e))?;
    read_header(&path, &header).map(|_| header[BACKUP_OFFSET] == 1)
}

/// The version that the bytes of a manifest describe, and where edits can be added.
fn replay(
    directory: &Arc<Directory>,
    path: &Path,
    bytes: &[u8],
) -> Result<(Version, Option<Extent>)> {
    let salt = read_header(path, bytes)?;
    let mut version = Version::empty(Arc::clone(directory));
    version.store = u64_at(bytes, STORE_OFFSET);
    let (mut at, mut net) = (HEADER_BYTES, Net::default());
    while let Some(len) = record_at(bytes, salt, at) {
        let damaged = |reason| Error::corrupt_at(path, at as u64, reason);
        let edits = decode(&bytes[at + RECORD_HEADER_BYTES..at + len]);
        let edits = edits.ok_or_else(|| damaged("a record of the manifest makes no sense"))?;
        edits.into_iter().try_for_each(|edit| net.push(edit)).map_err(damaged)?;
        at += len;
    }
    let misfit = |reason| Error::corrupt_at(path, HEADER_BYTES as u64, reason);
    version = version.apply(&net.into_edits()).map_err(misfit)?;
    // The first record is flushed before the manifest gets its name.
    let is_whole = at > HEADER_BYTES
        && (at + 1..bytes.len()).all(|later| record_at(bytes, salt, later).is_none());
    let begun = HEADER_BYTES + record_at(bytes, salt, HEADER_BYTES).unwrap_or(0);
    let features = u64_at(bytes, FEATURES_OFFSET);
    let extent = Extent { salt, end: at as u64, begun: begun as u64, features };
    let is_open = at == bytes.len() && bytes[BACKUP_OFFSET] == 0;
    match is_whole {
        true => Ok((version, is_open.then_some(extent))),
        false => Err(Error::corrupt_at(path, at as u64, "a record of the manifest is damaged")),
    }
}

/// Which manifest it is, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) salt: u64,
    pub(crate) end: u64,
    /// How long it was when it was new.
    begun: u64,
    /// What its header asks of readers.
    features: u64,
}

impl Extent {
    /// The mark of a close after this last sequence number, while the manifest is this one.
    pub(crate) fn mark(&self, last_seq: u64) -> Closed {
        Closed { manifest_salt: self.salt, manifest_len: self.end, last_seq }
    }
}

/// The manifest that edits are added to.
pub(crate) struct Manifest {
    path: PathBuf,
    file: Arc<dyn DataFile>,
    extent: Extent,
}

impl Manifest {
    /// The one that is there, to add to it: all of it is on stable storage.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn resume(directory: &Directory, extent: Extent) -> Result<Self> {
        let path = directory.file(Name::Manifest);
        let file = directory.system.open_data(&path, Open::Write, 0);
        let file = file.map_err(|e| Error::io("open", &path, e))?;
        Ok(Self { path, file, extent })
    }

    /// Which one it is, and how long.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Writes a manifest that describes `version` and lets it take the place of the one before.
    ///
    /// # Errors
    /// If the system refuses; then the one before is still there, or this one, which says the same.
    pub(crate) fn create(version: &Version, salt: u64) -> Result<Self> {
        Draft::write(version, salt, false)?.flushed()?.take_place()
    }

    /// The same for a backup: it stays one until it is opened as a store.
    ///
    /// # Errors
    /// As [`Manifest::create`].
    pub(crate) fn create_backup(version: &Version, salt: u64) -> Result<()> {
        Draft::write(version, salt, true)?.flushed()?.take_place().map(drop)
    }

    /// Adds edits; when this returns they are on stable storage.
    ///
    /// # Errors
    /// If the system refuses: then it is unknown whether they are there, and nothing may be added
    /// to this manifest any more; a new one has to take its place.
    pub(crate) fn append(&mut self, edits: &[Edit]) -> Result<()> {
        let Extent { salt, end, .. } = self.extent;
        let record = record(salt, end, edits)?;
        let written = self.file.write_at(&[IoSlice::new(&record)], end);
        written.map_err(|e| Error::io("write to", &self.path, e))?;
        self.file.sync().map_err(|e| Error::io("flush", &self.path, e))?;
        self.extent.end += record.len() as u64;
        Ok(())
    }

    /// Whether edits that lead to this version can be added: its header says what they need, and
    /// nothing else.
    pub(crate) fn takes(&self, next: &Version) -> bool {
        self.extent.features == features(next)
    }

    /// Whether it should be written anew, since most of it is history.
    pub(crate) fn is_long(&self) -> bool {
        self.extent.end >= (self.extent.begun * GROWTH).max(GROWTH_BYTES_MIN)
    }
}

/// A manifest that is written and has not taken its place.
pub(crate) struct Draft {
    directory: Arc<Directory>,
    path: PathBuf,
    file: Arc<dyn DataFile>,
    extent: Extent,
}

impl Draft {
    /// Writes a manifest that describes `version`, which is not flushed yet.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn write(version: &Version, salt: u64, is_backup: bool) -> Result<Self> {
        let directory = Arc::clone(version.directory());
        let (path, file) = Self::make(&directory)?;
        let record = record(salt, HEADER_BYTES as u64, &version.edits())?;
        let header = header(salt, version, is_backup);
        let written = file.write_at(&[IoSlice::new(&header), IoSlice::new(&record)], 0);
        written.map_err(|e| Error::io("write to", &path, e))?;
        let end = (HEADER_BYTES + record.len()) as u64;
        let extent = Extent { salt, end, begun: end, features: features(version) };
        Ok(Self { directory, path, file, extent })
    }

    /// Makes the file. One that is there already keeps its name throughout: it says that what is
    /// beside it belongs to no store yet.
    fn make(directory: &Directory) -> Result<(PathBuf, Arc<dyn DataFile>)> {
        let path = directory.file(Name::ManifestNew);
        match directory.opening(|| directory.system.open_data(&path, Open::Write, 0)) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                directory.create(Name::ManifestNew)
            }
            opened => {
                let file = opened.and_then(|file| file.set_len(0).map(|()| file));
                file.map_err(|e| Error::io("open", &path, e)).map(|file| (path, file))
            }
        }
    }

    /// The file.
    pub(crate) fn file(&self) -> &Arc<dyn DataFile> {
        &self.file
    }

    /// Flushes it.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn flushed(self) -> Result<Self> {
        self.file.sync().map_err(|e| Error::io("flush", &self.path, e))?;
        Ok(self)
    }

    /// Lets the flushed manifest take the place of the one before.
    ///
    /// # Errors
    /// As [`Manifest::create`].
    pub(crate) fn take_place(self) -> Result<Manifest> {
        let Self { directory, path: new, file, extent } = self;
        let path = directory.file(Name::Manifest);
        directory.system.rename(&new, &path).map_err(|e| Error::io("rename", &new, e))?;
        directory.sync()?;
        Ok(Manifest { path, file, extent })
    }
}

#[cfg(test)]
#[path = "manifest/tests.rs"]
mod tests;
