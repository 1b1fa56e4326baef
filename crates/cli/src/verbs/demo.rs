//! `netcaliper demo`: both ends in one process, over loopback.

use crate::args::OutputArgs;
use crate::args::values;
use crate::outputs::Outputs;
use crate::protocols;
use crate::verbs::loopback::Loopback;
use crate::verbs::measure;
use clap::Args;
use common::{ClientConfig, ServerConfig};
use console::error::{CliError, Exit};
use metrics::SECOND;
use model::{Event, Kind, Method, Pattern, Phase, Range};
use runtime::Interrupt;
use std::collections::BTreeMap;

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Length of each of the three parts, 100ms and more.
    #[arg(short = 't', long, value_name = "TIME", default_value = "3s", value_parser = values::part)]
    pub(crate) time: u64,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn parts(length: u64) -> [(&'static str, Phase); 3] {
    let base = Phase { duration_ns: Some(length), interval_ns: SECOND.min(length), ..Phase::default() };
    let connect = Phase {
        kind: Kind::Connect,
        transfer: 1,
        buffer: Range::just(4096),
        connections: 32,
        ..base.clone()
    };
    [
        ("tcp push", base.clone()),
        ("tcp duplex", Phase { pattern: Pattern::Duplex, ..base }),
        ("connect", Phase { shutdown: model::Shutdown::Rude, ..connect }),
    ]
}

/// Runs the parts against a server in this process; fails unless every byte was intact.
pub(crate) fn demo(args: &DemoArgs, command: Vec<String>) -> Result<Exit, CliError> {
    let mut outputs = Outputs::open(&args.output, None, &[])?;
    let server = Loopback::start("the embedded server", ServerConfig::new(protocols::NATIVE))?;
    let part = |(name, phase): (&str, Phase)| (BTreeMap::from([("part".to_owned(), name.to_owned())]), phase);
    let method = Method::list(parts(args.time).map(part).into(), 1).map_err(CliError::usage)?;
    let config = server.client();
    let one = |phase: &Phase, interrupt: &Interrupt, outputs: &mut Outputs| {
        // Tens of thousands of connections per second are shown as a distribution, not one by one.
        let config = ClientConfig { records: phase.kind == Kind::Tcp, ..config.clone() };
        measure::one(&config, phase, interrupt, &mut |event| {
            // Both ends are this process: its CPU time must not count twice.
            let event = match event {
                Event::Remote(totals) => Event::Remote(Box::new(model::Totals { cpu: None, ..*totals })),
                other => other,
            };
            outputs.event(&event);
        })
    };
    let measured = measure::measure("demo", command, &config, method, &mut outputs, one);
    let served = server.end();
    measured?;
    if !served {
        return Err(CliError::failed("the embedded server failed"));
    }
    Ok(outputs.finish())
}
