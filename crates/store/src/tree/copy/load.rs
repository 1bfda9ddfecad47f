//! Filling trees in order, each page once and full: what a compact copy consists of.
//!
//! Entries are taken in the order in which they are stored and never compared, so that the
//! functions of custom orders are not needed. In memory are a few leaves, and one branch of each
//! level.

use std::sync::Arc;

use super::write_run;
use crate::tree::order::{Form, KeyOrder};
use crate::tree::page::build::{Child, branch_len, build_branch, build_leaf};
use crate::tree::page::search::Extents;
use crate::tree::page::size::{LeafSize, Pair};
use crate::tree::page::{KeyCell, MAX_LEVELS, PageMut, ValueCell, add, max_inline_key, seal};
use crate::tree::page_ref::{ExtentRef, FIRST_PAGE, PageNo, PageRef};
use crate::tree::pages::{PageFile, Pages, ReadPages};
use crate::tree::path::Path;
use crate::tree::rebalance::{Change, collect, shortest};
use crate::tree::tree::{Root, Tree};
use crate::tree::{Bytes, Count, extent};
use crate::{Error, Result};

/// The number of the commit that a new store consists of.
pub(super) const COMMIT: u64 = 1;
/// This many bytes are gathered before they are written.
const GATHERED_BYTES: usize = 1 << 20;
/// Extents up to this size are gathered with the pages around them.
const SHORT_BYTES: usize = 64 << 10;
/// This many leaves are read at a time.
const BATCH_LEAVES: usize = 64;

/// A new file that is written from front to back.
pub(super) struct Sink<'f> {
    file: &'f PageFile,
    gathered: Vec<u8>,
    /// The page with which `gathered` begins.
    first: PageNo,
    /// The next page.
    next: PageNo,
}

impl<'f> Sink<'f> {
    pub(super) fn new(file: &'f PageFile) -> Self {
        Self { file, gathered: Vec::new(), first: FIRST_PAGE, next: FIRST_PAGE }
    }

    /// Writes what was gathered; returns the end of the store.
    pub(super) fn finish(mut self) -> Result<PageNo> {
        self.flush()?;
        Ok(self.next)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.interrupted()?;
        if !self.gathered.is_empty() {
            write_run(self.file, self.first, &self.gathered)?;
        }
        self.gathered.clear();
        self.first = self.next;
        Ok(())
    }

    fn advance(&mut self, pages: u32) -> Result<()> {
        let next = self.next.checked_add(pages).filter(|next| *next < self.file.max_pages());
        let max_size = u64::from(self.file.max_pages()) * self.file.page_size() as u64;
        self.next = next.ok_or(Error::StoreFull { max_size })?;
        Ok(())
    }

    /// Adds a page that `build` makes. Returns its number and its counters.
    fn page(
        &mut self,
        build: impl FnOnce(&mut [u8]) -> Result<Count, &'static str>,
    ) -> Result<(PageNo, Count)> {
        let (no, at) = (self.next, self.gathered.len());
        self.advance(1)?;
        self.gathered.resize(at + self.file.page_size(), 0);
        let page = &mut self.gathered[at..];
        let count = build(page).map_err(|why| self.file.corrupt(no, why))?;
        PageMut::new(page).set_birth(COMMIT);
        seal(page, no);
        if self.gathered.len() >= GATHERED_BYTES {
            self.flush()?;
        }
        Ok((no, count))
    }

    /// Adds a long key, or a value that is not very long.
    fn short_extent(&mut self, bytes: &[u8]) -> Result<ExtentRef> {
        let (first, at) = (self.next, self.gathered.len());
        let plan = extent::Plan::new(bytes.len() as u64, self.file.page_size());
        self.advance(plan.pages)?;
        self.gathered.extend_from_slice(bytes);
        self.gathered.resize(at + plan.pages as usize * self.file.page_size(), 0);
        let run = &mut self.gathered[at..];
        let sum = extent::finish(run, first, &plan, COMMIT);
        let reference = ExtentRef { first, len: bytes.len() as u32, sum };
        if self.gathered.len() >= GATHERED_BYTES {
            self.flush()?;
        }
        Ok(reference)
    }

    /// Adds a copy of a value, in parts.
    fn value(&mut self, source: &ReadPages, old: &ExtentRef) -> Result<ExtentRef> {
        let mut part = vec![0; (old.len as usize).min(SHORT_BYTES)];
        if old.len as usize <= SHORT_BYTES {
            source.extent_part(old, 0, &mut part)?;
            return self.short_extent(&part);
        }
        self.flush()?;
        let mut writer = extent::Writer::at(self.next, u64::from(old.len), self.file.page_size());
        self.advance(extent::run_of(old, self.file.page_size()).len)?;
        self.first = self.next;
        while writer.left() > 0 {
            let n = writer.left().min(part.len() as u64) as usize;
            let at = u64::from(old.len) - writer.left();
            source.extent_part(old, at, &mut part[..n])?;
            writer.write(self.file, &part[..n])?;
        }
        writer.finish(self.file, COMMIT)
    }
}

/// A page that waits for its parent.
struct Node {
    key: Vec<u8>,
    extent: Option<ExtentRef>,
    value: Option<Vec<u8>>,
    page: PageRef,
    count: Count,
}

impl Node {
    fn child(&self) -> Child<'_> {
        let separator = KeyCell { known: Bytes::from(&self.key[..]), extent: self.extent };
        let value = self.value.as_deref();
        Child { separator, value, page: self.page, count: self.count }
    }
}

/// A tree that grows at its end.
struct Loader<'l, 'f> {
    sink: &'l mut Sink<'f>,
    source: &'l ReadPages,
    form: &'l Form,
    /// The pages of each level that have no parent yet, leaves first.
    levels: Vec<Vec<Node>>,
    /// The last pair of the leaf before.
    last: Option<(Vec<u8>, Vec<u8>)>,
    root: Root,
}

impl<'l, 'f> Loader<'l, 'f> {
    fn new(sink: &'l mut Sink<'f>, source: &'l ReadPages, form: &'l Form) -> Self {
        Self { sink, source, form, levels: Vec::new(), last: None, root: Root::EMPTY }
    }

    fn page_size(&self) -> usize {
        self.sink.file.page_size()
    }

    /// Makes full leaves of the pairs. Returns the index of the first pair that is left.
    fn add(&mut self, pairs: &[Pair<'_>]) -> Result<usize> {
        let (mut size, mut from) = (LeafSize::new(), 0);
        for (i, pair) in pairs.iter().enumerate() {
            size.push(pair, self.form);
            if i > from && size.len(self.form, self.page_size()) > self.page_size() {
                self.leaf(&pairs[from..i])?;
                (size, from) = (LeafSize::new(), i);
                size.push(pair, self.form);
            }
        }
        Ok(from)
    }

    /// Makes one leaf of these pairs, which must fit.
    fn leaf(&mut self, pairs: &[Pair<'_>]) -> Result<()> {
        let [first, .., last] = pairs else {
            return match pairs {
                [only] => self.leaf_of(pairs, only, only),
                _ => Ok(()),
            };
        };
        self.leaf_of(pairs, first, last)
    }

    fn leaf_of(&mut self, pairs: &[Pair<'_>], first: &Pair<'_>, last: &Pair<'_>) -> Result<()> {
        let mut moved = Vec::with_capacity(pairs.len());
        for (i, pair) in pairs.iter().enumerate() {
            moved.push(self.moved(pair, i == 0)?);
        }
        let (key, value) = self.separator(first)?;
        let extent = if key.len() > max_inline_key(self.page_size()) {
            Some(self.sink.short_extent(&key)?)
        } else {
            None
        };
        let form = self.form;
        let (no, count) = self.sink.page(|page| build_leaf(page, &moved, form))?;
        let value_bytes = match last.value {
            ValueCell::Inline(bytes) => bytes.to_vec(),
            ValueCell::Extent(_) => Vec::new(),
        };
        self.last = Some((self.whole_key(&last.key)?, value_bytes));
        self.root.leaf_pages += 1;
        self.root.count = add(self.root.count, count);
        self.place(0, Node { key, extent, value, page: PageRef(no), count })
    }

    /// The pair with its extents in the new file. `begins`: it is the first of its leaf.
    fn moved<'p>(&mut self, pair: &Pair<'p>, begins: bool) -> Result<Pair<'p>> {
        let mut moved = *pair;
        if begins || pair.starts {
            let is_long = pair.key.known.len() > max_inline_key(self.page_size());
            if is_long || pair.key.extent.is_some() {
                let key = self.whole_key(&pair.key)?;
                let new = self.sink.short_extent(&key)?;
                moved.key.extent = Some(self.counted(new));
            }
        }
        if let ValueCell::Extent(old) = &pair.value {
            let new = self.sink.value(self.source, old)?;
            moved.value = ValueCell::Extent(self.counted(new));
        }
        Ok(moved)
    }

    fn counted(&mut self, new: ExtentRef) -> ExtentRef {
        self.root.overflow_pages += u64::from(extent::run_of(&new, self.page_size()).len);
        new
    }

    fn whole_key(&self, key: &KeyCell<'_>) -> Result<Vec<u8>> {
        match &key.extent {
            Some(old) => Ok(self.source.extent(old)?.to_vec()),
            None => Ok(key.known.to_vec()),
        }
    }

    /// The shortest separator between the leaf before and one that begins with `first`.
    fn separator(&self, first: &Pair<'_>) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let Some((last_key, last_value)) = &self.last else { return Ok((Vec::new(), None)) };
        let key = self.whole_key(&first.key)?;
        if first.starts {
            let (left, right) = (Bytes::from(&last_key[..]), Bytes::from(&key[..]));
            return Ok((shortest(&self.form.keys, &left, &right).to_vec(), None));
        }
        let order = self.form.values.as_ref().unwrap_or(&KeyOrder::Bytewise);
        let ValueCell::Inline(right) = first.value else {
            return Err(Error::argument("a long value among duplicates"));
        };
        let value = shortest(order, &Bytes::from(&last_value[..]), &right).to_vec();
        Ok((key, Some(value)))
    }

    /// Appends a page to its `level`; when the pages fill a branch, they get one.
    fn place(&mut self, level: usize, node: Node) -> Result<()> {
        if level + 1 >= MAX_LEVELS {
            return Err(Error::argument("the tree has too many levels"));
        }
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        let mut nodes = std::mem::take(&mut self.levels[level]);
        nodes.push(node);
        let children: Vec<Child<'_>> = nodes.iter().map(Node::child).collect();
        let len = branch_len(&children, self.form, level as u8 + 1, self.page_size());
        drop(children);
        // Two stay, so that no branch has a single child.
        if len > self.page_size() && nodes.len() > 3 {
            let rest = nodes.split_off(nodes.len() - 2);
            self.branch(level, nodes)?;
            nodes = rest;
        }
        self.levels[level] = nodes;
        Ok(())
    }

    /// Makes a branch above these pages of `level`.
    fn branch(&mut self, level: usize, nodes: Vec<Node>) -> Result<()> {
        let form = self.form;
        let children: Vec<Child<'_>> = nodes.iter().map(Node::child).collect();
        let above = level as u8 + 1;
        let (no, count) = self.sink.page(|page| build_branch(page, &children, form, above))?;
        drop(children);
        self.root.branch_pages += 1;
        let Some(first) = nodes.into_iter().next() else { return Ok(()) };
        self.place(level + 1, Node { page: PageRef(no), count, ..first })
    }

    /// Makes what is left into branches, up to the root.
    fn finish(mut self) -> Result<Root> {
        let mut level = 0;
        while level < self.levels.len() {
            let nodes = std::mem::take(&mut self.levels[level]);
            if let ([only], true) = (&nodes[..], level + 1 == self.levels.len()) {
                self.root.page = only.page;
                self.root.level = level as u8;
                break;
            }
            self.branch(level, nodes)?;
            level += 1;
        }
        Ok(self.root)
    }
}

/// A pair that waits for the next leaves to be read.
struct Waiting {
    key: Vec<u8>,
    key_extent: Option<ExtentRef>,
    value: Result<Vec<u8>, ExtentRef>,
    starts: bool,
}

impl Waiting {
    fn of(pair: &Pair<'_>) -> Self {
        let value = match pair.value {
            ValueCell::Inline(bytes) => Ok(bytes.to_vec()),
            ValueCell::Extent(extent) => Err(extent),
        };
        let key = pair.key.known.to_vec();
        Self { key, key_extent: pair.key.extent, value, starts: pair.starts }
    }

    fn pair(&self) -> Pair<'_> {
        let key = KeyCell { known: Bytes::from(&self.key[..]), extent: self.key_extent };
        let value = match &self.value {
            Ok(bytes) => ValueCell::Inline(Bytes::from(&bytes[..])),
            Err(extent) => ValueCell::Extent(*extent),
        };
        Pair { key, value, starts: self.starts }
    }
}

/// Fills a tree with all entries of another one. `told` hears of pages that are done.
pub(super) fn load_table(
    source: &ReadPages,
    tree: &Tree,
    sink: &mut Sink<'_>,
    told: &mut dyn FnMut(u64),
) -> Result<Root> {
    let mut path = Path::EMPTY;
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut loaded = Loaded::default();
    let mut has_begun = false;
    loop {
        // Pages that were read without a map stay in memory as long as their source.
        let batch = ReadPages::new(Arc::clone(&source.file), source.end);
        let mut loader = loaded.resume(sink, &batch, &tree.form);
        let mut pairs: Vec<Pair<'_>> = waiting.iter().map(Waiting::pair).collect();
        let mut leaves = 0;
        while leaves < BATCH_LEAVES {
            let page = if has_begun {
                path.next_leaf(&batch)?
            } else {
                path.descend(&batch, tree, |_| Ok(0))?
            };
            has_begun = true;
            let Some(page) = page else { break };
            collect(page, Change::None, &mut pairs);
            leaves += 1;
        }
        let overflow = loader.root.overflow_pages;
        let mut from = loader.add(&pairs)?;
        if leaves < BATCH_LEAVES {
            loader.leaf(&pairs[from..])?;
            from = pairs.len();
        }
        told(leaves as u64 + loader.root.overflow_pages - overflow);
        if leaves < BATCH_LEAVES {
            return loader.finish();
        }
        let left = pairs[from..].iter().map(Waiting::of).collect();
        drop(pairs);
        waiting = left;
        loaded = loader.pause();
    }
}

/// What of a loader outlives the source of its entries.
struct Loaded {
    levels: Vec<Vec<Node>>,
    last: Option<(Vec<u8>, Vec<u8>)>,
    root: Root,
}

impl Default for Loaded {
    fn default() -> Self {
        Self { levels: Vec::new(), last: None, root: Root::EMPTY }
    }
}

impl Loaded {
    fn resume<'l, 'f>(
        self,
        sink: &'l mut Sink<'f>,
        source: &'l ReadPages,
        form: &'l Form,
    ) -> Loader<'l, 'f> {
        let Self { levels, last, root } = self;
        Loader { levels, last, root, ..Loader::new(sink, source, form) }
    }
}

impl Loader<'_, '_> {
    fn pause(self) -> Loaded {
        Loaded { levels: self.levels, last: self.last, root: self.root }
    }
}

/// Fills a catalog with records, which are in the order of their names.
pub(super) fn load_catalog(
    source: &ReadPages,
    records: &[(Vec<u8>, Vec<u8>)],
    sink: &mut Sink<'_>,
) -> Result<Root> {
    let pair = |(name, record): &(Vec<u8>, Vec<u8>)| Waiting {
        key: name.clone(),
        key_extent: None,
        value: Ok(record.clone()),
        starts: true,
    };
    let records: Vec<Waiting> = records.iter().map(pair).collect();
    let pairs: Vec<Pair<'_>> = records.iter().map(Waiting::pair).collect();
    let mut loader = Loader::new(sink, source, &Form::PLAIN);
    let from = loader.add(&pairs)?;
    loader.leaf(&pairs[from..])?;
    loader.finish()
}
