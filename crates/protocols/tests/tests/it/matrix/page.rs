//! `docs/matrix.md` shows this table: a test compares both, and writes the page with
//! `NETCALIPER_WRITE_PAGE=1`.

use super::rules::RULES;
use super::table::{
    LEFT_OUT, LIMITS, LONG_WAITS, LeftOut, LongWait, PROTOCOLS, TROUBLES, VERBS, WAYS, carried,
};
use super::{PART, carried_cells, cells};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// What follows this line of the page is made here.
const MARK: &str = "<!-- From here on this page is made by the tests of crates/protocols/tests. -->\n";

fn page() -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    let all = cells();
    line(&format!("\n{} cells; each run of `./test` tries one in {PART}, `bench/deep` all.\n", all.len()));
    line("## Questions and protocols\n");
    line(
        "A question in a direction over a protocol is one row of cells, one cell for each path and server below.\n",
    );
    let names: Vec<&str> = VERBS.iter().map(|verb| verb.name).collect();
    line(&format!("| protocol | {} |", names.join(" | ")));
    line(&format!("|---|{}", "---|".repeat(names.len())));
    let mut refused: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for (nth, protocol) in PROTOCOLS.into_iter().enumerate() {
        let mut row = format!("| {protocol} |");
        for verb in &VERBS {
            let ways = WAYS.into_iter().filter(|(_, pattern)| verb.has(*pattern));
            let (mut tried, mut why) = (Vec::new(), Vec::new());
            for (way, pattern) in ways.clone() {
                match carried(protocol, verb, pattern) {
                    Ok(_) => tried.push(way),
                    Err(reason) => why.push((way, reason)),
                }
            }
            // One direction stands for both where messages go there and back.
            let all = tried.len() == ways.count();
            let cell = match tried.as_slice() {
                [] => String::new(),
                [_] if all => "yes".to_owned(),
                ways => ways.join(", "),
            };
            let _ = write!(row, " {cell} |");
            for (way, reason) in why {
                let reason =
                    reason.strip_prefix(&format!("the protocol {protocol} ")).unwrap_or(&reason).to_owned();
                let of = refused.entry((nth, reason)).or_default();
                let name =
                    if tried.is_empty() { verb.name.to_owned() } else { format!("{} {way}", verb.name) };
                if !of.contains(&name) {
                    of.push(name);
                }
            }
        }
        line(&row);
    }
    line("\nWhat a protocol does not carry, in its own words:\n");
    line("| protocol | question | reason |\n|---|---|---|");
    for ((nth, reason), questions) in &refused {
        line(&format!("| {} | {} | {reason} |", PROTOCOLS[*nth], questions.join(", ")));
    }
    line("\n## Paths and servers\n");
    for (_, words) in TROUBLES {
        line(&format!("- {words}"));
    }
    for (words, _) in LIMITS.iter().skip(1) {
        line(&format!("- a good path, {words}"));
    }
    line("\n## Rules\n");
    for (name, sentence, _) in RULES {
        line(&format!("- {name}: {sentence}"));
    }
    line("\n## Left out\n");
    let any = |name: &str| if name.is_empty() { "any".to_owned() } else { name.to_owned() };
    if LEFT_OUT.is_empty() {
        line("Nothing.");
    } else {
        line(
            "A rule that does not hold of a cell, or a cell that makes no sense, is left out with the reason.\n",
        );
        line(
            "| protocol | question | direction | path or server | rule | reason |\n|---|---|---|---|---|---|",
        );
    }
    for LeftOut { protocol, verb, way, trouble, rule, why } in LEFT_OUT {
        let words =
            TROUBLES.iter().find(|(known, _)| Some(*known) == *trouble).map_or("any", |(_, words)| words);
        let [protocol, verb, way, rule] = [protocol, verb, way, rule].map(|name| any(name));
        line(&format!("| {protocol} | {verb} | {way} | {words} | {rule} | {why} |"));
    }
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cell in carried_cells() {
        let Err(why) = cell.check() else { continue };
        let of = refused.entry(why).or_default();
        let name = format!("{} {}", cell.protocol, cell.verb.name);
        if !of.contains(&name) {
            of.push(name);
        }
    }
    line("\n## What the program refuses\n");
    line("Cells with two servers that are no cells, because the command ends with this sentence:\n");
    line("| protocol and question | sentence |\n|---|---|");
    for (why, of) in &refused {
        line(&format!("| {} | {why} |", of.join(", ")));
    }
    line("\n## Waits\n");
    line(
        "A client that falls silent in any step has left its server after 15 s, a server that falls silent is given up \
         after 15 s, or after the time that an option gives. These servers wait longer; one whose client sent nothing \
         at all does not:\n",
    );
    line("| protocol | s | reason |\n|---|---|---|");
    for LongWait { protocol, seconds, why } in LONG_WAITS {
        line(&format!("| {protocol} | {seconds} | {why} |"));
    }
    text
}

#[test]
fn the_page_shows_this_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/matrix.md");
    let read = std::fs::read_to_string(&path).unwrap();
    let (head, shown) = read.split_once(MARK).unwrap();
    let page = page();
    if std::env::var_os("NETCALIPER_WRITE_PAGE").is_some() {
        std::fs::write(&path, format!("{head}{MARK}{page}")).unwrap();
        return;
    }
    assert!(
        shown == page,
        "docs/matrix.md shows another table: NETCALIPER_WRITE_PAGE=1 cargo test -p protocol-tests --test it the_page_shows"
    );
}
