//! Runs that were kept, as pages: the list, and each with its report.

use hyper::StatusCode;
use model::KeptRun;
use std::path::Path;
use store::{Query, Store, StoreError};

const PAGE: &str = include_str!("page/history.html");
/// Most runs on a page.
const MOST: u32 = 500;

/// Why a page cannot be made, in a sentence.
pub(crate) type Refusal = (StatusCode, String);

pub(crate) fn list(store: Option<&Path>) -> Result<Vec<u8>, Refusal> {
    let mut rows = Vec::new();
    report::write_history_rows(&runs(store)?, &mut rows).map_err(failed)?;
    let (head, foot) = PAGE.split_once("{rows}").unwrap_or((PAGE, ""));
    Ok([head.as_bytes(), &rows, foot.as_bytes()].concat())
}

pub(crate) fn json(store: Option<&Path>) -> Result<Vec<u8>, Refusal> {
    let mut body = Vec::new();
    report::write_history_json(&runs(store)?, &mut body).map_err(failed)?;
    Ok(body)
}

pub(crate) fn run(store: Option<&Path>, id: &str) -> Result<Vec<u8>, Refusal> {
    let number = id.parse().ok().filter(|id: &i64| *id > 0);
    let number = number
        .ok_or_else(|| (StatusCode::NOT_FOUND, "runs have numbers, as the list shows them".to_owned()))?;
    let store = open(store)?.ok_or_else(|| (StatusCode::NOT_FOUND, "no run was kept yet".to_owned()))?;
    let outcome = store.outcome(number).map_err(|e| refused(&e))?;
    let mut body = Vec::new();
    report::write_html(&outcome, &mut body).map_err(failed)?;
    Ok(body)
}

fn runs(store: Option<&Path>) -> Result<Vec<KeptRun>, Refusal> {
    let Some(store) = open(store)? else { return Ok(Vec::new()) };
    let query = Query { most: Some(MOST), ..Query::default() };
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
