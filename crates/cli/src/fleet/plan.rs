//! A plan from the command line, and its forecast.

use super::{PlanArgs, ShapeArgs, questions, rounds};
use crate::runs::saved;
use console::error::{CliError, Exit};
use console::{stderr, stdout};
use fleet::inventory::{Format, Inventory, Limit};
use fleet::plan::{Plan, Request, Round, Shape};
use std::io::{self, Write as _};
use std::net::ToSocketAddrs as _;
use std::path::Path;

/// The inventory of this name: a file, `-`, or `dns:NAME`.
pub(super) fn inventory(name: &str) -> Result<Inventory, CliError> {
    let of = |e: &dyn std::fmt::Display| CliError::usage(format!("{name}: {e}"));
    if let Some(host) = name.strip_prefix("dns:") {
        let found = (host, 0).to_socket_addrs();
        let found = found.map_err(|e| of(&format!("the name cannot be resolved: {e}")))?;
        return Inventory::of_name(host, found.map(|address| address.ip()).collect()).map_err(|e| of(&e));
    }
    let bytes = saved::bytes(Path::new(name))?;
    let text = String::from_utf8(bytes).map_err(|_| of(&"the file is not UTF-8 text"))?;
    Inventory::parse(&text, Format::of(name, &text)).map_err(|e| of(&e))
}

/// The plan that the command line asks for.
pub(super) fn of(args: &ShapeArgs) -> Result<Plan, CliError> {
    let mut hosts = inventory(&args.inventory)?;
    let limits: Result<Vec<Limit>, _> = args.limits.iter().map(|text| text.parse()).collect();
    hosts.limit(&limits.map_err(CliError::usage)?).map_err(CliError::usage)?;
    let set = |text: &String| text.parse().map_err(CliError::usage);
    let shape = match (&args.between[..], &args.representatives, args.random) {
        ([a, b], ..) => Shape::Bipartite(set(a)?, set(b)?),
        (_, Some(label), _) => Shape::Representatives(label.clone()),
        (_, _, Some(n)) => Shape::Regular(n),
        _ => Shape::Mesh,
    };
    let usual = ["ping".to_owned()];
    let words = if args.tests.is_empty() { &usual[..] } else { &args.tests };
    let tests =
        words.iter().map(|text| questions::test(text, args.class.as_deref())).collect::<Result<_, _>>()?;
    let unlike = args.changed_since.as_deref().map(inventory).transpose()?;
    let run = runtime::run_id();
    let request = Request { run, shape, tests, repeats: args.repeats, seed: args.seed, unlike };
    let rounds = rounds::of(&args.when).map_err(CliError::usage)?;
    let plan = Plan::make(hosts, request).map_err(CliError::usage)?;
    Ok(match rounds {
        Some(rounds) => plan.in_round(Round::first(run, rounds)),
        None => plan,
    })
}

/// Prints the forecast of the plan.
pub(super) fn show(args: &PlanArgs) -> Result<Exit, CliError> {
    let plan = of(&args.shape)?;
    let forecast = plan.forecast();
    stdout::print(|out| match args.json {
        true => serde_json::to_writer_pretty(&mut *out, &forecast)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
        false => {
            let (color, columns) = (stdout::color(), stderr::stdout_columns());
            forecast.write(&plan, color, columns, &mut stdout::Text::to(out))
        }
    })
}
