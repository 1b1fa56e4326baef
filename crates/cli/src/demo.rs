//! `netcaliper demo`: both ends in one process, over loopback.

use crate::args::OutputArgs;
use crate::outputs::Outputs;
use crate::protocols;
use crate::{CliError, Exit, measure, plan, values};
use clap::Args;
use common::{ClientConfig, Peer, ServerConfig};
use metrics::SECOND;
use model::{Event, Kind, Pattern, Phase, Range, Status};
use report::Planned;
use runtime::{Bound, Interrupt};
use std::collections::BTreeMap;
use std::net::SocketAddr;

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
    let interrupt = measure::on_signals()?;
    outputs.watch(&interrupt, Planned::of(parts(args.time).iter().map(|(_, phase)| phase)))?;
    let (server_interrupt, bound) = (Interrupt::new(), Bound::new(server())?);
    let Some(&address) = bound.addresses().first() else {
        return Err(CliError::failed("the embedded server has no address"));
    };
    let stop_server = server_interrupt.clone();
    let server = std::thread::spawn(move || bound.run(&server_interrupt, &mut |_| {}));
    let measured = client(args, command, address, &interrupt, &mut outputs);
    stop_server.ask();
    let served = server.join();
    measured?;
    if !matches!(served, Ok(Ok(()))) {
        return Err(CliError::failed("the embedded server failed"));
    }
    Ok(outputs.finish())
}

fn server() -> ServerConfig {
    ServerConfig {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        version: plan::VERSION.to_owned(),
        ..ServerConfig::new(protocols::NATIVE)
    }
}

fn client(
    args: &DemoArgs,
    command: Vec<String>,
    address: SocketAddr,
    interrupt: &Interrupt,
    outputs: &mut Outputs,
) -> Result<(), CliError> {
    let mut config = ClientConfig {
        peers: vec![Peer { name: "loopback".to_owned(), address }],
        version: plan::VERSION.to_owned(),
        ..ClientConfig::new(protocols::NATIVE)
    };
    let (mut status, mut reason) = (Status::Complete, None);
    let mut begun = false;
    for (name, phase) in parts(args.time) {
        config.run = runtime::run_id();
        // Tens of thousands of connections per second are shown as a distribution, not one by one.
        config.records = phase.kind == Kind::Tcp;
        if !begun {
            outputs.begin(runtime::begin(&config, "demo", command.clone(), &phase));
            begun = true;
        }
        let label = BTreeMap::from([("part".to_owned(), name.to_owned())]);
        outputs.event(&Event::Phase { label, repeat: 1, phase: Box::new(phase.clone()) });
        (status, reason) = measure::one(&config, &phase, interrupt, &mut |event| {
            // Both ends are this process: its CPU time must not count twice.
            let event = match event {
                Event::Remote(totals) => Event::Remote(Box::new(model::Totals { cpu: None, ..*totals })),
                other => other,
            };
            outputs.event(&event);
        })?;
        if status != Status::Complete {
            break;
        }
    }
    let status = measure::of_run(status, &outputs.outcome());
    outputs.event(&Event::End { status, reason });
    Ok(())
}
