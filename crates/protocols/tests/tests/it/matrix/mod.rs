//! The matrix: every question over every protocol that carries it, in every direction, on good
//! paths and in every trouble; for each cell the same rules.
//!
//! A tenth of the cells is tried by default, drawn by [`SEED`]; all of them with
//! `NETCALIPER_MATRIX=all`, as by `bench/deep`. `NETCALIPER_MATRIX=TEXT` tries those whose names
//! contain the text, and a failure names its cells. `NETCALIPER_MATRIX_LEFT_OUT=1` tries what is
//! left out, too, and so shows whether a reason still holds; `NETCALIPER_MATRIX_SHOW=1` shows all
//! results of the cells.

mod cell;
mod crowd;
mod page;
mod rules;
mod table;

use crate::support::sized;
use cell::{Cell, Ran};
use metrics::SECOND;
use rules::RULES;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use table::{LEFT_OUT, LENGTH, LIMITS, LONG_WAITS, PROTOCOLS, TROUBLES, Trouble, VERBS, WAYS, carried};
use transport::Rng;

/// What the cells of a usual run are drawn by.
const SEED: u64 = 43;
/// One cell in so many.
const PART: u64 = 10;

/// Whether a rule of a cell, or with `""` the cell, is left out.
fn is_left_out(cell: &Cell, rule: &str) -> bool {
    let asked_for = std::env::var_os("NETCALIPER_MATRIX_LEFT_OUT").is_some();
    !asked_for && LEFT_OUT.iter().any(|out| out.is_of(cell, rule))
}

/// Every cell that a protocol carries and the program runs.
fn cells() -> Vec<Cell> {
    carried_cells().into_iter().filter(|cell| cell.check().is_ok()).collect()
}

/// Every cell that a protocol carries.
fn carried_cells() -> Vec<Cell> {
    let mut all = Vec::new();
    for protocol in PROTOCOLS {
        for verb in &VERBS {
            for (way, pattern) in WAYS.into_iter().filter(|(_, pattern)| verb.has(*pattern)) {
                let Ok(phase) = carried(protocol, verb, pattern) else { continue };
                for (trouble, _) in TROUBLES {
                    let servers = if trouble == Trouble::None { &LIMITS[..] } else { &LIMITS[..1] };
                    for &limits in servers {
                        let mut phase = phase.clone();
                        let shares = phase.kind != model::Kind::Train;
                        if matches!(trouble, Trouble::Two | Trouble::Half) && shares {
                            phase.connections = phase.connections.max(2);
                        }
                        let cell = Cell { protocol, verb, way, phase, trouble, limits };
                        if !is_left_out(&cell, "") {
                            all.push(cell);
                        }
                    }
                }
            }
        }
    }
    all
}

/// The cells to try.
fn drawn() -> Vec<Cell> {
    let mut rng = Rng::new(SEED);
    let asked = std::env::var("NETCALIPER_MATRIX").ok();
    let mut tried = |cell: &Cell| {
        let drawn = cell.is_limited() || rng.between(1, PART) == 1;
        match asked.as_deref() {
            None => drawn,
            Some("all") => true,
            Some(text) => cell.name().contains(text),
        }
    };
    cells().into_iter().filter(|cell| tried(cell)).collect()
}

/// What does not hold of a cell, by rule.
fn broken(cell: &Cell) -> Vec<(&'static str, String)> {
    let ran: Ran = match catch_unwind(AssertUnwindSafe(|| cell.run())) {
        Ok(ran) => ran,
        Err(_) => return vec![("panics", "a panic, told above".to_owned())],
    };
    if std::env::var_os("NETCALIPER_MATRIX_SHOW").is_some() {
        return vec![("shown", format!("{:#?}\n{:#?}\n{:?}", ran.outcome, ran.servers, ran.fates))];
    }
    let kept = RULES.iter().filter(|(name, ..)| !is_left_out(cell, name));
    kept.filter_map(|(name, _, rule)| Some((*name, rule(cell, &ran).err()?))).collect()
}

/// Tries the cells of one trouble, or those of servers that limit their clients.
fn try_cells(trouble: Trouble, limited: bool) {
    let mut failed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut count = 0;
    for cell in drawn().iter().filter(|cell| cell.trouble == trouble && cell.is_limited() == limited) {
        count += 1;
        for (rule, why) in broken(cell) {
            failed.entry(rule).or_default().push(format!("{}: {why}", cell.name()));
        }
    }
    let lines =
        failed.iter().flat_map(|(rule, cells)| cells.iter().map(move |cell| format!("[{rule}] {cell}")));
    let lines: Vec<String> = lines.collect();
    assert!(
        lines.is_empty(),
        "{} broken rules in {count} cells (again: NETCALIPER_MATRIX='PART OF A NAME' cargo test -p protocol-tests \
         --test it matrix):\n{}",
        lines.len(),
        lines.join("\n")
    );
}

macro_rules! troubles {
    ($($name:ident: $trouble:ident,)*) => {
        $(#[test]
        fn $name() {
            try_cells(Trouble::$trouble, false);
        })*

        #[test]
        fn every_trouble_is_tried() {
            let tried = [$(Trouble::$trouble),*];
            assert!(TROUBLES.iter().map(|(trouble, _)| *trouble).eq(tried));
        }
    };
}

#[test]
fn limits_of_the_server_at_a_tenth() {
    try_cells(Trouble::None, true);
}

// One test for each, so that they share the cores.
troubles! {
    good_paths: None,
    mute_servers: Mute,
    servers_that_die: Dies,
    servers_cut_off_near_the_end: Silent,
    paths_that_end_behind_the_handshake: Behind,
    paths_that_drop_large_packets: Narrow,
    two_servers: Two,
    two_servers_of_which_one_is_mute: Half,
    long_paths: Far,
    damage_that_arrives: Damaged,
    damage_that_the_kernel_drops: Spoilt,
    servers_that_wake_late: Late,
}

/// What a client waits for at most behind the time of its run: [`common::Patience::LIMIT`], the
/// conversation before, and connections that end.
const WAITS: u64 = 22 * SECOND;

/// Bytes behind which a peer falls silent: in, at and behind the first words of each protocol, and
/// in its data.
const SIZES: [u64; 12] = [0, 1, 4, 30, 37, 80, 170, 400, 1_000, 2_500, 6_000, 40_000];

/// A server that falls silent within any step of the conversation is given up.
#[test]
fn a_server_that_falls_silent_is_given_up_in_every_step() {
    let mut late = Vec::new();
    let none = cells().into_iter().filter(|cell| cell.trouble == Trouble::None);
    for (nth, cell) in none.enumerate() {
        // One of these for each cell in ./test, in turn.
        for bytes in SIZES.into_iter().skip(sized(nth % SIZES.len(), 0)).step_by(sized(SIZES.len(), 1)) {
            let took = cell.silent_after(bytes);
            // UDPmon's own tests repeat a request as often as the original: for 33 s.
            let more = if cell.protocol.name() == "udpmon" { 18 * SECOND } else { 0 };
            if took.is_none_or(|took| took > LENGTH + WAITS + more) {
                late.push(format!("{} after {bytes} bytes: {took:?}", cell.name()));
            }
        }
    }
    assert!(late.is_empty(), "{} of them:\n{}", late.len(), late.join("\n"));
}

/// A client that falls silent within any step leaves nothing at its server when the server's waits
/// are over: the sizes are those above, the settings of the server the usual ones.
#[test]
fn a_client_that_falls_silent_in_any_step_leaves_its_server() {
    let mut left = Vec::new();
    let none = cells().into_iter().filter(|cell| cell.trouble == Trouble::None);
    for (nth, cell) in none.enumerate() {
        let longer = LONG_WAITS.iter().find(|wait| wait.protocol == cell.protocol.name());
        let longer = longer.map_or(0, |wait| wait.seconds * SECOND);
        for bytes in SIZES.into_iter().skip(sized(nth % SIZES.len(), 0)).step_by(sized(SIZES.len(), 1)) {
            let open = cell.left_of_a_client(bytes, LENGTH + WAITS + longer);
            if open > 0 {
                left.push(format!("{} after {bytes} bytes: {open}", cell.name()));
            }
        }
    }
    assert!(left.is_empty(), "{} of them:\n{}", left.len(), left.join("\n"));
}
