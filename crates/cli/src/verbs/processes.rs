//! Worker processes: the command that a client or a server runs to have one.

use crate::protocols::{self, Protocol};
use clap::Args;
use console::error::{CliError, Exit};
use std::net::SocketAddr;

#[derive(Args, Debug)]
pub(crate) struct WorkerArgs {
    #[arg(long, value_parser = protocols::parse)]
    protocol: Protocol,
    #[arg(long)]
    origin: u64,
    #[arg(long)]
    workers: u16,
    #[arg(long)]
    buffer: usize,
    #[arg(long)]
    core: Vec<usize>,
    #[arg(long)]
    device: Option<String>,
    #[arg(long)]
    realtime: bool,
    #[arg(long)]
    at_most: Option<u64>,
    #[arg(long)]
    listen: Vec<SocketAddr>,
    #[arg(long, default_value_t = 0)]
    pending: u32,
}

pub(crate) fn worker(args: &WorkerArgs) -> Result<Exit, CliError> {
    let settings = runtime::WorkerSettings {
        origin: args.origin,
        workers: args.workers,
        cores: args.core.clone(),
        buffer: args.buffer,
        device: args.device.clone(),
        realtime: args.realtime,
        at_most: args.at_most,
        listen: args.listen.clone(),
        pending: args.pending,
    };
    runtime::be_worker(args.protocol, &settings)?;
    Ok(Exit::Good)
}
