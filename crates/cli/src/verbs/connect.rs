//! `netcaliper connect`.

use crate::args::repeat::RepeatArgs;
use crate::args::{LocalArgs, OutputArgs, RunArgs, SocketArgs, TargetArgs, values};
use crate::outputs::Outputs;
use crate::verbs::{measure, plan};
use clap::Args;
use console::error::{CliError, Exit};
use metrics::SECOND;
use model::{Kind, Pattern, Phase, Range};

#[derive(Args, Debug)]
pub(crate) struct ConnectArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// New connections per second, above 0, at most 10000000 [default: as fast as it goes].
    #[arg(long, value_name = "N", value_parser = values::per_second, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,
    /// Bytes the client sends on each connection before it ends [default: 1; 64 with --hold].
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, allow_negative_numbers = true)]
    pub(crate) transfer: Option<u64>,
    /// Keep every connection open after its bytes, until all have been opened and this long after:
    /// the run ends then.
    #[arg(long, value_name = "TIME", value_parser = values::duration, conflicts_with = "iterations")]
    pub(crate) hold: Option<u64>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) repeat: RepeatArgs,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) fn connect(args: &ConnectArgs, command: Vec<String>) -> Result<Exit, CliError> {
    let method = args.repeat.of(&phase(args), &[]).map_err(CliError::usage)?;
    let mut config = plan::client(&args.target, &args.local, false)?;
    // The number of workers of each is decided with the phase.
    config.processes.count = args.run.processes.unwrap_or(0);
    measure::check(&config, &method, &args.output)?;
    let outputs = Outputs::open(&args.output, None, &[])?;
    config.records = outputs.records;
    measure::run("connect", command, &config, method, outputs)
}

/// The phase that `netcaliper connect` asks for.
fn phase(args: &ConnectArgs) -> Phase {
    let transfer = args.transfer.unwrap_or(if args.hold.is_some() { 64 } else { 1 });
    let ends_by_itself = args.run.iterations.is_some() || args.hold.is_some();
    let length = (!ends_by_itself).then_some(10 * SECOND);
    let common = plan::common(&args.run, &args.sockets, &args.target, length);
    Phase {
        kind: Kind::Connect,
        pattern: Pattern::Push,
        transfer,
        iterations: args.hold.map_or(common.iterations, |_| Some(1)),
        hold_ns: args.hold,
        // Small transfers are read in one call together with their framing.
        buffer: Range::just(transfer.clamp(4096, 64 * 1024)),
        connect_rate: args.rate,
        ..common
    }
}
