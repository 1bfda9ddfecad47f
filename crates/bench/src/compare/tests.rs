//! Every operation on small stores: right engines pass, and an engine that lies is found out.

use super::peer::Peer;
use super::session::{Opened, Session};
use super::spec::Workload;
use super::{Course, model::Model, report};
use crate::engine::Result;
use crate::engines::hollow::Hollow;

/// All steps that need no other process, on a store of few entries.
fn small(duplicates: u64) -> Workload {
    let mut text = format!(
        "about = 'all'\nkeys = 2000\nduplicates = {duplicates}\nrounds = 2\n\
         shape = {{ key = 20, value = 40 }}\n"
    );
    let both = "load get get-many miss scan scan-pages read-threads speedup count count-keys nth \
                rank sample len size open put put-batch churn remove";
    let one = "range replace compact remove-range";
    let many = "values compact remove-range";
    for operation in both.split(' ').chain(if duplicates == 0 { one } else { many }.split(' ')) {
        text += &format!(
            "[[step]]\nname = '{operation}'\ndo = '{operation}'\noperations = 20\nbatch = 10\n\
             threads = {}\n",
            if operation == "put" { 4 } else { 1 }
        );
    }
    Workload::parse("small", &text).unwrap()
}

fn faults(workload: &Workload, engines: &[Peer]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    report::faults(&Course::run(workload, engines, folder.path()).unwrap())
}

#[test]
fn engines_that_are_right_have_no_faults() {
    let engines = [Peer::Hedgerow, Peer::Lmdb, Peer::Redb, Peer::Limit];
    assert_eq!(faults(&small(0), &engines), [""; 0]);
    assert_eq!(faults(&small(5), &engines), [""; 0]);
}

#[test]
fn an_engine_without_entries_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let workload = small(0);
    let model = Model::new(workload.shape, workload.keys, 0);
    let mut session = Opened::<Hollow>::new("hollow", folder.path(), &workload).unwrap();
    let wrong = |result: Result<()>| {
        assert!(result.unwrap_err().to_string().starts_with("a wrong answer"));
    };
    wrong(session.verify(&model));
    // A cursor of this engine has no end: only steps without one.
    for name in ["get", "get-many", "scan-pages", "nth", "rank", "count", "len", "read-threads"] {
        let step = workload.steps.iter().find(|step| step.name == name).unwrap();
        wrong(session.run(step, &model).map(drop));
    }
}
