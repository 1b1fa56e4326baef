//! What a released version wrote is read for ever: its documents, a journal and a store, as
//! `tests/released/make` wrote them once.

use crate::support::files::Scratch;
use crate::support::netcaliper;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of all released versions.
fn versions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released");
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    assert!(found[0].ends_with("0.1.0"), "the first release is gone: {found:?}");
    found
}

/// The files of a version with this ending.
fn files(version: &Path, ending: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(version).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        all.filter(|path| path.file_name().unwrap().to_str().unwrap().ends_with(ending)).collect();
    found.sort();
    found
}

/// Outcomes: every JSON document that is not a lab's.
fn outcomes(version: &Path) -> Vec<PathBuf> {
    let mut found = files(version, ".json");
    found.retain(|path| !path.to_str().unwrap().ends_with(".lab.json"));
    found
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn schema(name: &str) -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(name);
    jsonschema::validator_for(&document(&path)).unwrap()
}

/// `kind` of a saved outcome's first phase.
fn kinds(path: &Path) -> BTreeSet<String> {
    let document = document(path);
    let points = document["points"].as_array().unwrap().iter();
    points.filter_map(|point| Some(point["phase"]["kind"].as_str()?.to_owned())).collect()
}

#[test]
fn outcomes_of_every_release_fit_the_schema() {
    let validator = schema("outcome.v2.json");
    for path in versions().iter().flat_map(|version| outcomes(version)) {
        let document = document(&path);
        let complaints: Vec<String> =
            validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(complaints.is_empty(), "{}: {complaints:#?}", path.display());
    }
    let validator = schema("lab.v1.json");
    for path in versions().iter().flat_map(|version| files(version, ".lab.json")) {
        assert!(validator.is_valid(&document(&path)), "{}", path.display());
    }
}

/// What printing or comparing this run ends with: a run that failed has a reason, and no figures.
fn exit_of(path: &Path) -> i32 {
    i32::from(document(path)["status"] == "failed")
}

#[test]
fn outcomes_of_every_release_are_printed_as_they_were_and_can_be_compared() {
    let scratch = Scratch::new();
    let copy = scratch.file("again.json");
    for path in versions().iter().flat_map(|version| outcomes(version)) {
        let printed = netcaliper("report").arg(&path).run().exits(exit_of(&path));
        assert!(!printed.out.trim().is_empty(), "{}", path.display());
        // What is read and written again has lost nothing: each field of the file is there with its
        // value.
        let again = netcaliper("report").arg(&path).arg("--json").run().exits(exit_of(&path));
        let again: Value = serde_json::from_str(&again.out).unwrap();
        let mut lost = Vec::new();
        missing(&document(&path), &again, "", &mut lost);
        assert!(lost.is_empty(), "{}: {lost:#?}", path.display());
        fs::copy(&path, &copy).unwrap();
        netcaliper("compare").arg(&path).arg(&copy).run().exits(exit_of(&path));
    }
}

/// Fields of `old` that `new` lacks or has with another value; `new` may have more. Caveats and the
/// knee of a sweep are found anew from the figures, by the rules of the version that reads: the
/// stages of a load are no sweep of a rate, and have no knee.
fn missing(old: &Value, new: &Value, at: &str, lost: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(_)) => {
            for (name, value) in old.iter().filter(|(name, _)| !["caveats", "knee"].contains(&name.as_str()))
            {
                missing(value, &new[name], &format!("{at}/{name}"), lost);
            }
        }
        (Value::Array(old), Value::Array(there)) if old.len() == there.len() => {
            for (index, (old, new)) in old.iter().zip(there).enumerate() {
                missing(old, new, &format!("{at}/{index}"), lost);
            }
        }
        (old, new) if old == new => {}
        _ => lost.push(at.to_owned()),
    }
}

#[test]
fn journals_and_stores_of_every_release_are_read() {
    for version in versions() {
        for journal in files(&version, ".jsonl") {
            netcaliper("report").arg(&journal).run().exits(0).prints(&["ping"]);
        }
        for store in files(&version, ".sqlite") {
            let scratch = Scratch::new();
            let copy = scratch.file("runs.sqlite");
            fs::copy(&store, &copy).unwrap();
            let told = netcaliper("history").env("NETCALIPER_STORE", &copy).arg("--json").run().exits(0);
            let told: Value = serde_json::from_str(&told.out).unwrap();
            assert_eq!(told["runs"].as_array().unwrap().len(), 2);
            netcaliper("show").env("NETCALIPER_STORE", &copy).arg("1").run().exits(0).prints(&["ping"]);
            netcaliper("show").env("NETCALIPER_STORE", &copy).arg("2").run().exits(0).prints(&["tcp"]);
        }
    }
}

/// A question that is added gets its document with the release that has it first.
/// Questions that no released version has.
const UNRELEASED: [&str; 1] = ["capacity"];

#[test]
fn every_question_has_a_document() {
    let known: BTreeSet<String> =
        versions().iter().flat_map(|version| outcomes(version)).flat_map(|path| kinds(&path)).collect();
    let schema = document(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/outcome.v2.json"));
    let all = &schema["$defs"]["Kind"]["oneOf"];
    for kind in all.as_array().unwrap_or_else(|| panic!("the schema has no kinds: {all}")) {
        let kind = kind["const"].as_str().unwrap();
        let is_known = known.contains(kind) != UNRELEASED.contains(&kind);
        assert!(is_known, "no released document of {kind}, or one of an unreleased question: {known:?}");
    }
}
