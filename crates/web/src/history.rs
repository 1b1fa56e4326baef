//! Runs that were kept, as pages: the list, each with its report, two compared, and the trend of
//! one target.

use hyper::StatusCode;
use model::{KeptRun, Outcome};
use report::{Comparison, HistoryQuery};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use store::{Query, Store, StoreError};

const PAGE: &str = include_str!("page/history.html");
/// Most runs on a page.
const MOST: u32 = 500;

/// Why a page cannot be made, in a sentence.
pub(crate) type Refusal = (StatusCode, String);

/// The values that a request asks with, by name.
pub(crate) type QueryFields = BTreeMap<String, String>;

/// The values of a query, decoded as forms encode them.
pub(crate) fn query_fields(query: &str) -> QueryFields {
    let decoded = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes().iter();
        while let Some(&byte) = rest.next() {
            let code = || u8::from_str_radix(std::str::from_utf8(rest.as_slice().get(..2)?).ok()?, 16).ok();
            match (byte, code()) {
                (b'%', Some(byte)) => {
                    bytes.push(byte);
                    rest.nth(1);
                }
                (b'+', _) => bytes.push(b' '),
                (byte, _) => bytes.push(byte),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

pub(crate) fn list(store: Option<&Path>, mut asked: QueryFields) -> Result<Vec<u8>, Refusal> {
    let mut take = |name: &str| asked.remove(name).unwrap_or_default();
    let query = HistoryQuery {
        verb: take("verb"),
        target: take("target"),
        from: take("from"),
        to: take("to"),
        sort: take("sort"),
    };
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let wanted = Query {
        verb: some(&query.verb),
        target: some(&query.target),
        since: query.since(),
        until: query.until(),
        most: Some(MOST),
    };
    let verbs = latest(store)?.into_iter().map(|run| run.verb).filter(|verb| !verb.is_empty());
    let verbs = Vec::from_iter(verbs.collect::<BTreeSet<String>>());
    let runs = runs(store, wanted)?;
    page("Saved runs", |out| report::write_history_page(&runs, &query, &verbs, out))
}

pub(crate) fn trend(store: Option<&Path>, asked: &QueryFields) -> Result<Vec<u8>, Refusal> {
    let (Some(verb), Some(target)) = (asked.get("verb"), asked.get("target")) else {
        return Err((StatusCode::BAD_REQUEST, "a trend is that of a verb and a target".to_owned()));
    };
    let query = Query { verb: Some(verb.clone()), target: Some(target.clone()), ..Query::default() };
    let mut runs = runs(store, Query { most: Some(MOST), ..query })?;
    // The query finds runs whose targets contain the text; a trend is of one target.
    runs.retain(|run| run.targets == *target);
    page(&format!("{verb} {target}"), |out| report::write_trend(&runs, out))
}

pub(crate) fn compare(store: Option<&Path>, asked: &QueryFields) -> Result<Vec<u8>, Refusal> {
    let (Some(before), Some(after)) = (asked.get("before"), asked.get("after")) else {
        let sentence = "two runs are compared: mark one as before and one as after";
        return Err((StatusCode::BAD_REQUEST, sentence.to_owned()));
    };
    let (a, b) = (outcome(store, before)?, outcome(store, after)?);
    let comparison = Comparison::of(std::slice::from_ref(&a), std::slice::from_ref(&b))
        .map_err(|sentence| (StatusCode::BAD_REQUEST, sentence))?;
    page(&format!("Run {before} and run {after}"), |out| {
        for (side, id) in [("Before", before), ("After", after)] {
            writeln!(out, "<p>{side}: <a href=\"/history/{}\">run {0}</a></p>", report::escape(id))?;
        }
        comparison.write_html(&a, &b, out)
    })
}

/// A page of this site about saved runs.
fn page(title: &str, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<Vec<u8>, Refusal> {
    let main = written(write)?;
    let (head, foot) = PAGE.split_once("{main}").unwrap_or((PAGE, ""));
    let head = head.replace("{title}", &report::escape(title));
    Ok([head.as_bytes(), &main, foot.as_bytes()].concat())
}

pub(crate) fn json(store: Option<&Path>) -> Result<Vec<u8>, Refusal> {
    let runs = latest(store)?;
    written(|body| report::write_history_json(&runs, body))
}

pub(crate) fn run(store: Option<&Path>, id: &str) -> Result<Vec<u8>, Refusal> {
    let outcome = outcome(store, id)?;
    written(|body| report::write_html(&outcome, body))
}

pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<Vec<u8>, Refusal> {
    let mut body = Vec::new();
    write(&mut body).map_err(failed)?;
    Ok(body)
}

fn outcome(store: Option<&Path>, id: &str) -> Result<Outcome, Refusal> {
    let number = id.parse().ok().filter(|id: &i64| *id > 0);
    let number = number
        .ok_or_else(|| (StatusCode::NOT_FOUND, "runs have numbers, as the list shows them".to_owned()))?;
    let store = open(store)?.ok_or_else(|| (StatusCode::NOT_FOUND, "no run was kept yet".to_owned()))?;
    store.outcome(number).map_err(|e| refused(&e))
}

fn latest(store: Option<&Path>) -> Result<Vec<KeptRun>, Refusal> {
    runs(store, Query { most: Some(MOST), ..Query::default() })
}

fn runs(store: Option<&Path>, query: Query) -> Result<Vec<KeptRun>, Refusal> {
    let Some(store) = open(store)? else { return Ok(Vec::new()) };
    store.list(&query).map_err(|e| refused(&e))
}

/// The store, if anything was kept.
fn open(store: Option<&Path>) -> Result<Option<Store>, Refusal> {
    let path = store.ok_or_else(|| (StatusCode::NOT_FOUND, "the store of runs is off here".to_owned()))?;
    match Store::existing(path) {
        Ok(store) => Ok(Some(store)),
        Err(StoreError::Missing(_)) => Ok(None),
        Err(error) => Err(refused(&error)),
    }
}

fn refused(error: &StoreError) -> Refusal {
    let status = match error {
        StoreError::NoRun { .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.to_string())
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_as_forms_encode_them() {
        let told = query_fields("verb=tcp&target=a%20b%2Bc+d&odd=%&worse=%zz&&empty=&none");
        let want = [("verb", "tcp"), ("target", "a b+c d"), ("odd", "%"), ("worse", "%zz"), ("empty", "")];
        assert_eq!(told, want.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(query_fields("a=%ff")["a"], "\u{fffd}");
    }
}
