//! `netcaliper fleet report`: the matrix of a run in any form.

use super::reach::WhichArgs;
use super::{ShowArgs, alert};
use crate::outputs::export;
use crate::provenance;
use crate::runs::saved;
use console::error::{CliError, Context as _, Exit};
use console::{file, stderr, stdout};
use fleet::matrix::{Matrix, MatrixBuilder, write_html, write_metrics, write_text};
use fleet::record::Record;
use fleet::result::Counts;
use model::Outcome;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

/// A result that was shown.
pub(super) struct Shown {
    /// The states of its tests.
    pub(super) counts: Counts,
    has_verdict: bool,
}

impl Shown {
    /// The exit code of a result that otherwise ends with `exit`.
    pub(super) fn exit(&self, exit: Exit, args: &ShowArgs) -> Exit {
        match exit {
            Exit::Good | Exit::Partial if args.fail_on_verdict && self.has_verdict => Exit::Threshold,
            exit => exit,
        }
    }
}

/// The folder of a run, or the file of a result: a run's name is enough, and the default is the last
/// run.
pub(super) fn find(result: Option<&Path>) -> Result<PathBuf, CliError> {
    match result {
        Some(path) if path == Path::new("-") || path.exists() => Ok(path.to_owned()),
        other => WhichArgs { run: other.map(Path::to_owned) }.folder(),
    }
}

/// Shows a result, and runs the user's commands for its verdicts. The result is compared with the
/// requested one, or else with `before`.
pub(super) fn report(result: &Path, args: &ShowArgs, before: Option<&Path>) -> Result<Shown, CliError> {
    args.pages.as_deref().map_or(Ok(()), file::folder)?;
    let mut store = if args.keep { Some(args.store.make()?) } else { None };
    let mut matrix = read(result, &mut |outcome| {
        if let Some(folder) = &args.pages {
            let path = folder.join(format!("{}.html", outcome.begin.run));
            file::put(&path, |out| report::write_html(outcome, out))?;
        }
        if let Some(store) = &mut store
            && !store.holds(outcome.begin.run).map_err(CliError::failed)?
        {
            store.keep(outcome, "").map_err(CliError::failed)?;
        }
        Ok(())
    })?;
    let baseline = args.baseline.as_deref().map(|result| find(Some(result))).transpose()?;
    if let Some(before) = baseline.as_deref().or(before) {
        matrix.compare(&read(before, &mut |_| Ok(()))?);
    }
    if let Some(path) = &args.html {
        let link = |at: usize| page(args.pages.as_deref()?, path, &matrix, at);
        file::put(path, |out| write_html(&matrix, &link, out))?;
    }
    if let Some(path) = &args.metrics_file {
        file::put(path, |out| write_metrics(&matrix, out))?;
    }
    // A closed stdout keeps nobody from being alerted.
    let alerted = alert::alert(&matrix, args);
    let printed = stdout::print(|out| match args.json {
        true => {
            serde_json::to_writer(&mut *out, &matrix).map_err(io::Error::from).and_then(|()| writeln!(out))
        }
        false => write_text(&matrix, stdout::color(), stderr::stdout_columns(), &mut stdout::Text::to(out)),
    });
    if let Some(exporter) = args.export.open(provenance::VERSION)? {
        export::send(&exporter, &export::of_fleet(&matrix));
    }
    printed.and(alerted)?;
    let has_verdict = !alert::verdicts(&matrix, args).is_empty();
    Ok(Shown { counts: matrix.counts(), has_verdict })
}

/// The page of a cell's last outcome, as seen from the page of the matrix.
fn page(folder: &Path, html: &Path, matrix: &Matrix, at: usize) -> Option<String> {
    let run = matrix.cells.get(at)?.runs.last()?;
    Some(format!("{}{run}.html", way(html.parent()?, folder)))
}

/// The way from one folder to another, as a URL has it, each name with a slash behind.
fn way(from: &Path, to: &Path) -> String {
    let (from, to) = (names(from), names(to));
    let same = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("../".to_owned(), from.len() - same);
    let down = to[same..].iter().map(|name| report::url_encoded(name.as_encoded_bytes()) + "/");
    up.chain(down).collect()
}

/// The names from the root to a folder. Symbolic links are not followed: a browser, which resolves
/// the URL, does not either.
fn names(folder: &Path) -> Vec<OsString> {
    // The parent of a plain name is empty.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut names = Vec::new();
    for part in folder.components() {
        match part {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::ParentDir => drop(names.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}

/// The matrix of a folder or of a document; `each` sees every outcome of a folder.
pub(super) fn read(
    path: &Path,
    each: &mut dyn FnMut(&Outcome) -> Result<(), CliError>,
) -> Result<Matrix, CliError> {
    if !path.is_dir() {
        return Matrix::read(&saved::bytes(path)?).context(path.display());
    }
    let record = Record::open(path).context(path.display())?;
    let mut builder = MatrixBuilder::new(record.plan());
    let mut told = Ok(());
    let read = record.results(|result, outcome| {
        if builder.add(&result, outcome.as_ref())
            && told.is_ok()
            && let Some(outcome) = &outcome
        {
            told = each(outcome);
        }
    });
    read.context(path.display()).and(told)?;
    Ok(builder.build(runtime::wall_now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_pages_wherever_these_are() {
        for (from, to, link) in [
            ("/a/b", "/a/b/pages", "pages/"),
            ("/a/b", "/a/b", ""),
            ("/a/b", "/a/c/d", "../c/d/"),
            ("/a/b/../c", "/a/./c/p", "p/"),
            ("", "a b#?%\u{e9}", "a%20b%23%3F%25%C3%A9/"),
            ("here", "there", "../there/"),
        ] {
            assert_eq!(way(Path::new(from), Path::new(to)), link, "{from} {to}");
        }
    }
}
