//! Every kind of damage, planted one at a time with right checksums, and the words with which check
//! names it: each field of the headers, of records, groups, cells and extents, of the catalog, the
//! free-space trees and the meta record, and pages that are lost, used twice or in wrong places.

use std::path::Path;

use super::tests::{
    PAGE, bytes_of_filled, edit_meta, edit_page, newest, page_at, page_mut, root_of, swap_slots,
    written,
};
use super::*;
use crate::coding::{put_u16, put_u32, put_u64, u16_at, u32_at};
use crate::tree::page::{
    ALIGNED, BIRTH_OFFSET, COUNT_OFFSET, FLAGS_OFFSET, HEADER_LEN, HEAP_OFFSET, KIND_OFFSET,
    LEVEL_OFFSET, Page, PageMut, SHARED_OFFSET, WHOLE, code,
};

/// A sound store to plant damage into, where its copies stand, and the damages that check did not
/// name.
struct Field {
    clean: Vec<u8>,
    folder: tempfile::TempDir,
    missed: Vec<String>,
}

impl Field {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { clean: bytes_of_filled(), folder, missed: Vec::new() }
    }

    /// Plants a damage into a copy and checks that one.
    fn plant(&mut self, what: &str, wanted: &'static str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.clean.clone();
        edit(&mut bytes);
        assert!(bytes != self.clean, "{what}: nothing was changed");
        let told = told_of(self.folder.path(), &bytes);
        if !told.iter().any(|problem| problem.contains(wanted)) {
            let told = &told[..told.len().min(4)];
            self.missed.push(format!("{what}: {wanted:?} is not in {told:?}"));
        }
    }

    /// Changes a page of a table, its checksum repaired.
    fn page(
        &mut self,
        (what, wanted): (&str, &'static str),
        no: PageNo,
        edit: impl FnOnce(&mut [u8]),
    ) {
        self.plant(what, wanted, |bytes| edit_page(bytes, no, edit));
    }

    /// The page of a table on this level, the first one but `skip`.
    fn page_of(&mut self, table: &str, level: u8, skip: usize) -> PageNo {
        let root = root_of(&self.clean, table);
        let mut slots = vec![0; usize::from(root.level - level)];
        if let Some(last) = slots.last_mut() {
            *last = skip;
        }
        page_at(&mut self.clean, &root, &slots)
    }

    /// A page, for looking at it.
    fn view<R>(&mut self, no: PageNo, look: impl FnOnce(Page<'_>) -> R) -> R {
        look(PageMut::new(page_mut(&mut self.clean, no)).view())
    }

    /// At the end: every damage must have been named.
    fn harvest(self) {
        let missed = self.missed;
        assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
    }
}

/// What is said of a store, when it is opened or when it is checked.
fn told_of(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let path = written(folder, bytes);
    let report = Store::open(&path).and_then(|store| store.check(&mut |_, _| {}));
    match report {
        Ok(report) => [report.problems, report.notes].concat(),
        Err(error) => vec![error.to_string()],
    }
}

fn flip(at: usize) -> impl Fn(&mut [u8]) {
    move |page| page[at] ^= 1
}

fn flip_flag(flag: u8) -> impl Fn(&mut [u8]) {
    move |page| page[FLAGS_OFFSET] ^= flag
}

fn set_half(at: usize, change: impl Fn(u16) -> u16) -> impl Fn(&mut [u8]) {
    move |page| {
        let old = u16_at(page, at);
        put_u16(page, at, change(old));
    }
}

#[test]
fn fields_of_headers() {
    let mut field = Field::new();
    for (table, level) in [("plain", 0), ("plain", 1), ("reverse", 0), ("fixed", 0), ("fixed", 1)] {
        let no = field.page_of(table, level, 1);
        let name = |what: &str| format!("{table}, level {level}: {what}");
        let mut page = |what: &str, wanted, edit: &dyn Fn(&mut [u8])| {
            field.page((&name(what), wanted), no, edit);
        };
        page("kind", "not a tree page", &|page| page[KIND_OFFSET] ^= 3);
        page("level", "", &|page| page[LEVEL_OFFSET] += 1);
        page("an unknown flag", "unknown page flags", &|page| page[FLAGS_OFFSET] |= 0x80);
        page("another order", "are not those of the table", &|page| page[FLAGS_OFFSET] ^= 2);
        page("another order of values", "", &|page| page[FLAGS_OFFSET] ^= 4);
        page("zero after the flags", "bytes that must be zero", &flip(FLAGS_OFFSET + 1));
        page("birth", "written by commit", &|page| put_u64(page, BIRTH_OFFSET, u64::MAX));
        page("count", "", &set_half(COUNT_OFFSET, |n| n - 1));
        page("no count", "an empty tree page", &set_half(COUNT_OFFSET, |_| 0));
        page("greatest count", "parts of a page overlap", &set_half(COUNT_OFFSET, |_| u16::MAX));
        page("shared length", "", &set_half(SHARED_OFFSET, |n| n + 4));
        page("greatest shared length", "overlap", &set_half(SHARED_OFFSET, |_| u16::MAX));
        page("heap", "", &set_half(HEAP_OFFSET, |n| n - 1));
        page("greatest heap", "overlap", &set_half(HEAP_OFFSET, |_| u16::MAX));
        page("zeros after the heap", "bytes that must be zero", &flip(HEAP_OFFSET + 3));
    }
    let no = field.page_of("plain", 0, 1);
    field.page(("a flag of whole keys", "says that they do not"), no, flip_flag(WHOLE));
    let no = field.page_of("dense", 0, 1);
    field.page(("no such flag", "are not those of the table"), no, flip_flag(WHOLE));
    let no = field.page_of("whole", 0, 1);
    field.page(("aligned and not whole", "unknown page flags"), no, flip_flag(WHOLE));
    field.page(("not aligned", ""), no, flip_flag(ALIGNED));
    let share = set_half(SHARED_OFFSET, |_| 4);
    field.page(("shared bytes of whole keys", "says that they do not"), no, share);
    field.harvest();
}

#[test]
fn shared_bytes_heads_and_offsets() {
    let mut field = Field::new();
    for (table, level) in [("plain", 0), ("plain", 1), ("reverse", 0), ("duplicates", 0)] {
        let no = field.page_of(table, level, 1);
        let (shared, heads, offsets) = field.view(no, |page| {
            let offsets = page.offset_address(0) as usize - page.address() as usize;
            (page.shared().len(), page.heads_at(), offsets)
        });
        let name = |what: &str| format!("{table}, level {level}: {what}");
        if shared > 0 && level == 0 {
            let at = if table == "reverse" { HEADER_LEN + shared - 1 } else { HEADER_LEN };
            field.page((&name("shared bytes"), ""), no, |page| page[at] = 0xFF);
        }
        if shared % 4 != 0 {
            let at = HEADER_LEN + shared;
            let wanted = "bytes that must be zero";
            field.page((&name("padding"), wanted), no, |page| page[at] = 1);
        }
        field.page((&name("head"), "head of slot 1"), no, flip(heads + 4));
        if level == 0 {
            field.page((&name("order"), ""), no, |page| swap_slots(page, 1, 2));
            let twice = |page: &mut [u8]| page.copy_within(offsets..offsets + 2, offsets + 2);
            field.page((&name("two slots, one record"), "gap or overlap"), no, twice);
            let outside = |page: &mut [u8]| put_u16(page, offsets, HEADER_LEN as u16);
            field.page((&name("offset"), "outside of the page's heap"), no, outside);
        }
    }
    field.harvest();
}

#[test]
fn children_and_their_counters() {
    let mut field = Field::new();
    for table in ["plain", "fixed", "custom"] {
        let no = field.page_of(table, 1, 0);
        let (children, end) =
            (field.view(no, |page| page.heads_at() + 4 * page.len()), newest(&field.clean).end);
        let other = field.page_of("duplicates", 0, 2);
        let above = root_of(&field.clean, table).page.0;
        let n = field.view(no, |page| page.len());
        let name = |what: &str| format!("{table}: {what}");
        let mut child = |what: &str, wanted, to: PageNo| {
            field.page((&name(what), wanted), no, |page| put_u32(page, children + 4, to));
        };
        child("a child of another table", "", other);
        child("its own child", "", no);
        child("the root as a child", "", above);
        child("a child beyond the end", "a child beyond the end", end);
        child("a meta page as a child", "a child beyond the end", 2);
        child("a changed page as a child", "a child beyond the end", 1 << 31);
        let first = field.view(no, |page| page.child(0).0);
        field.page((&name("a child twice"), "used twice"), no, |page| {
            put_u32(page, children + 4, first);
        });
        let totals = children + 4 * n;
        let wanted = "below child 0";
        field.page((&name("a counter"), wanted), no, |page| page[totals] ^= 1);
        if table == "fixed" {
            field.page((&name("a counter of values"), wanted), no, |page| {
                page[totals + 4 * n] ^= 1;
            });
        }
        field.page((&name("the greatest counter"), "below child 1"), no, |page| {
            put_u32(page, totals + 4, u32::MAX);
        });
    }
    field.harvest();
}

#[test]
fn separators() {
    let mut field = Field::new();
    let no = field.page_of("plain", 1, 0);
    field.page(("two separators exchanged", "before the separator"), no, |page| {
        swap_slots(page, 1, 2);
    });
    field.page(
        ("a separator too far behind", "before the separator that leads to it"),
        no,
        |page| {
            let last = page.len() - 1;
            let (at, len) = PageMut::new(page).record_place(1);
            page[at + len - 1] = 0xFF;
            assert!(at + len <= last + 1);
        },
    );
    let first = field.view(no, |page| page.record(0).len());
    assert_eq!(first, 2);
    field.page(("a head of the first child", "the first child has a separator"), no, |page| {
        let at = PageMut::new(page).view().heads_at();
        page[at] = 1;
    });
    field.harvest();
}

/// Where the part after the key begins, in the first record of a page that has this code there.
fn record_with(field: &mut Field, no: PageNo, wanted: u32) -> Option<usize> {
    field.view(no, |page| {
        let mut records = (0..page.len()).map(|slot| page.record(slot));
        let found = records.find(|record| record.value_code() == wanted && !record.is_long_key());
        found.map(|record| record.value_at())
    })
}

#[test]
fn groups() {
    let mut field = Field::new();
    let no = field.page_of("duplicates", 0, 1);
    let group = record_with(&mut field, no, code::GROUP).unwrap();
    let mut page = |what: &str, wanted, edit: &dyn Fn(&mut [u8])| {
        field.page((what, wanted), no, edit);
    };
    page("count", "", &set_half(group, |n| n - 1));
    page("a group of one", "less than two values", &set_half(group, |_| 1));
    page("the greatest count", "", &set_half(group, |_| u16::MAX));
    page("shared length", "", &set_half(group + 2, |n| n + 1));
    page("stride", "", &set_half(group + 4, |n| n ^ 1));
    page("no stride", "a group of equal values", &set_half(group + 4, |_| 0));
    page("the greatest stride", "", &set_half(group + 4, |_| u16::MAX - 1));
    let fixed = field.page_of("fixed", 0, 1);
    let group = record_with(&mut field, fixed, code::GROUP).unwrap();
    let shared = usize::from(u16_at(page_mut(&mut field.clean, fixed), group + 2));
    let stride = usize::from(u16_at(page_mut(&mut field.clean, fixed), group + 4));
    field.page(("two values exchanged", "is not after the one before"), fixed, |page| {
        let values = group + 6 + shared;
        let (first, second) = page[values..values + 2 * stride].split_at_mut(stride);
        first.swap_with_slice(second);
    });
    let whole = field.page_of("whole duplicates", 0, 1);
    let group = record_with(&mut field, whole, code::GROUP).unwrap();
    let share = set_half(group + 2, |_| 1);
    field.page(("shared bytes of whole values", "says that they do not"), whole, share);
    field.harvest();
}

#[test]
fn slots_of_aligned_records() {
    let mut field = Field::new();
    let no = field.page_of("whole", 0, 1);
    let slot = field.view(no, |page| page.offset_address(3) as usize - page.address() as usize);
    let mut page = |what: &str, wanted, edit: &dyn Fn(&mut [u8])| {
        field.page((what, wanted), no, edit);
    };
    page("an odd place", "at an odd place", &set_half(slot, |at| at + 1));
    page("another place", "", &set_half(slot, |at| at + 2));
    page("a place before the records", "outside of the page's heap", &set_half(slot, |_| 64));
    page("a longer key", "", &|page| page[slot + 2] += 2);
    page("a shorter value", "", &|page| page[slot + 3] -= 2);
    page("a code that means nothing", "an unknown code", &|page| page[slot + 3] = 0xF1);
    page("a key that is a group", "an unknown code", &|page| page[slot + 2] = 0xFE);
    page("a length in the record", "", &|page| page[slot + 3] = 0xF0);
    field.harvest();
}

#[test]
fn cells_and_extents() {
    let mut field = Field::new();
    let root = root_of(&field.clean, "plain");
    let leaves = field.view(root.page.0, |page| page.len());
    let (no, cell) = (0..leaves)
        .find_map(|slot| {
            let no = field.page_of("plain", 0, slot);
            Some((no, record_with(&mut field, no, code::EXTENT)?))
        })
        .unwrap();
    let at = |page: usize| u32_at(&field.clean, no as usize * PAGE + page);
    let (first, len, end) = (at(cell), at(cell + 4), newest(&field.clean).end);
    let mut page = |what: &str, wanted, edit: &dyn Fn(&mut [u8])| {
        field.page((what, wanted), no, edit);
    };
    page("first page", "", &|page| put_u32(page, cell, first + 1));
    page("an extent over meta pages", "does not exist", &|page| put_u32(page, cell, 0));
    page("an extent beyond the end", "does not exist", &|page| put_u32(page, cell, end));
    page("length", "checksums of a long value", &|page| put_u32(page, cell + 4, len - 4096));
    page("the greatest length", "does not exist", &|page| put_u32(page, cell + 4, u32::MAX));
    page("sum", "checksums of a long value", &flip(cell + 8));
    let run =
        crate::tree::extent::run_of(&crate::tree::page_ref::ExtentRef { first, len, sum: 0 }, PAGE);
    let start = first as usize * PAGE;
    field.plant("a byte of a value", "page of a long value is wrong", |bytes| bytes[start] ^= 1);
    let last = start + run.len as usize * PAGE - 1;
    field.plant("the trailer", "checksums of a long value", |bytes| bytes[last] ^= 1);
    let keys = field.page_of("long keys", 0, 1);
    let (known, text) = field.view(keys, |page| {
        let record = page.record(0);
        let at = record.rest().as_ptr() as usize - page.address() as usize;
        (at - 2, at)
    });
    field.page(("known bytes", "is not the one it shows"), keys, |page| page[text + 5] ^= 1);
    field.page(("too many known bytes", "more of a long key"), keys, |page| {
        put_u16(page, known, 49);
    });
    field.page(("the extent of a key", ""), keys, |page| page[known - 12] ^= 1);
    field.harvest();
}

#[test]
fn records_of_the_catalog() {
    let mut field = Field::new();
    let catalog = newest(&field.clean).catalog.page.0;
    let names = field.view(catalog, |page| {
        let value = |slot: usize| {
            let record = page.record(slot);
            let key = record.key_cell().known.to_vec();
            (key, record.inline_value().as_ptr() as usize - page.address() as usize)
        };
        (0..page.len()).map(value).collect::<Vec<_>>()
    });
    let at = |name: &[u8]| names.iter().find(|(key, _)| key == name).map_or(0, |(_, at)| *at);
    let plain = at(b"plain");
    let mut page = |what: &str, wanted, edit: &dyn Fn(&mut [u8])| {
        field.page((what, wanted), catalog, edit);
    };
    page("root", "", &|page| put_u32(page, plain, 3));
    page("a root beyond the end", "does not exist", &|page| put_u32(page, plain, 1 << 30));
    page("a root that is a changed page", "none that this version", &|page| {
        put_u32(page, plain, 1 << 31);
    });
    page("level", "another level", &|page| put_u32(page, plain + 4, 7));
    page("the greatest level", "none that this version", &|page| put_u32(page, plain + 4, 32));
    for (i, what) in ["keys", "values", "branch", "leaf", "overflow"].into_iter().enumerate() {
        let at = plain + 8 + 8 * i;
        page(what, "is said to have", &|page| put_u64(page, at, 12_345));
        page(what, "none that this version", &|page| put_u64(page, at, u64::MAX));
    }
    page("order", "are not those of the table", &|page| page[plain + 48] = 1);
    page("an unknown order", "none that this version", &|page| page[plain + 48] = 4);
    page("duplicates", "are not those of the table", &|page| page[plain + 49] = 1);
    page("an unknown kind", "none that this version", &|page| page[plain + 49] = 3);
    page("an unknown order of values", "none that this version", &|page| page[plain + 50] = 9);
    page("whole keys", "are not those of the table", &|page| page[plain + 51] = 1);
    page("an unknown way of keeping", "none that this version", &|page| page[plain + 51] = 4);
    page("leaves without heads", "none that this version", &|page| page[plain + 51] = 3);
    page("a name's length", "none that this version", &|page| page[plain + 64] = 1);
    let integer = at(b"integer");
    page("size of keys", "has 8 bytes", &|page| put_u32(page, integer + 52, 4));
    let fixed = at(b"fixed");
    page("size of values", "has 8 bytes", &|page| put_u32(page, fixed + 56, 7));
    field.harvest();
}

#[test]
fn free_space() {
    let mut field = Field::new();
    let meta = newest(&field.clean);
    assert!(!meta.ready.page.is_none() || !meta.recent.is_empty());
    let used = root_of(&field.clean, "plain").page.0;
    let recent = |start, len| FreeRun { run: Run { start, len }, birth: 0, freed: 0 };
    let mut edit = |what: &str, wanted, edit: &dyn Fn(&mut Meta)| {
        field.plant(what, wanted, |bytes| edit_meta(bytes, edit));
    };
    edit("ready pages", "ready free pages", &|meta| meta.free.ready ^= 1);
    edit("pending pages", "pending free pages", &|meta| meta.free.pending ^= 1);
    edit("a used page as free", "but in use", &|meta| meta.recent.push(recent(used, 1)));
    if let Some(free) = meta.recent.first().map(|free| free.run) {
        edit("a page free twice", "free twice", &|meta| {
            meta.recent.push(recent(free.start, 1));
        });
        edit("a page forgotten", "lost", &|meta| {
            meta.recent.remove(0);
        });
    }
    for (which, tree) in [("ready", meta.ready), ("pending", meta.pending)] {
        if tree.page.is_none() || tree.level > 0 {
            continue;
        }
        let no = tree.page.0;
        let value = field.view(no, |page| {
            page.record(0).inline_value().as_ptr() as usize - page.address() as usize
        });
        let name = |what: &str| format!("{which}: {what}");
        field.page((&name("a longer run"), ""), no, |page| page[value + 3] ^= 1);
        field.page((&name("an empty run"), "none that a store wrote"), no, |page| {
            page[value..value + 4].fill(0);
        });
        field.page((&name("a run beyond the end"), "outside of the store"), no, |page| {
            page[value + 1] = 0xFF;
        });
    }
    field.harvest();
}

#[test]
fn meta_records() {
    let mut field = Field::new();
    let plain = root_of(&field.clean, "plain").page;
    let mut edit = |what: &str, wanted, edit: &dyn Fn(&mut Meta)| {
        field.plant(what, wanted, |bytes| edit_meta(bytes, edit));
    };
    edit("the root of the catalog", "", &|meta| meta.catalog.page = plain);
    edit("a catalog of another level", "another level", &|meta| meta.catalog.level += 1);
    edit("keys of the catalog", "the catalog is said to have", &|meta| {
        meta.catalog.count.keys += 1;
    });
    edit("leaves of the catalog", "the catalog is said to have", &|meta| {
        meta.catalog.leaf_pages += 1;
    });
    edit("the root of the ready tree", "", &|meta| meta.ready.page = plain);
    edit("the root of the pending tree", "", &|meta| meta.pending.page = plain);
    edit("the end, lowered", "", &|meta| meta.end -= 40);
    field.plant("the end, raised", "lost", |bytes| {
        edit_meta(bytes, |meta| meta.end += 1);
        bytes.resize(bytes.len() + PAGE, 0);
    });
    field.plant("a file that is too short", "cut off", |bytes| {
        let end = newest(bytes).end as usize;
        bytes.truncate((end - 1) * PAGE);
    });
    field.harvest();
}
