//! Options of UDP sockets and of their senders, which several commands have.

use crate::args::values::{self, Named};
use crate::args::{EcnArgs, HeaderArgs};
use crate::protocols::{self, Protocol};
use clap::{Args, ValueEnum};
use console::error::CliError;
use model::{SocketSettings, Waiting};

/// Options of UDP sockets, for both ends.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sockets (both ends)")]
pub(crate) struct DatagramArgs {
    /// Send buffer (SO_SNDBUF) in bytes [default: the system's].
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub(crate) sndbuf: Option<u64>,
    /// Receive buffer (SO_RCVBUF) in bytes; the system's limit may make it less.
    #[arg(long, value_name = "BYTES", default_value = "4Mi", value_parser = values::bytes)]
    pub(crate) rcvbuf: u64,
    #[command(flatten)]
    pub(crate) header: HeaderArgs,
    #[command(flatten)]
    pub(crate) ecn: EcnArgs,
    /// The DF flag: on, packets are never fragmented; off, routers may do it [default: the
    /// system's].
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"])]
    pub(crate) df: Option<String>,
    /// Send every datagram by a call of its own, also when several are due (no generic
    /// segmentation).
    #[arg(long)]
    pub(crate) no_gso: bool,
    /// Receive merged datagrams (UDP_GRO): merged datagrams share one arrival time [default: from 1
    /// Gbit/s on, without --samples and --tx-stamps].
    #[arg(long)]
    pub(crate) gro: bool,
    /// Receive every datagram by itself at any rate.
    #[arg(long, conflicts_with = "gro")]
    pub(crate) no_gro: bool,
    /// Take the time of arrival after the receive call, not from the kernel.
    #[arg(long)]
    pub(crate) no_stamps: bool,
    /// Take times from the network card, where they agree with the kernel's: auto uses a card that
    /// stamps already, on switches this host's card to it for the run (CAP_NET_ADMIN); the server
    /// has an option of its own. Native protocol only.
    #[arg(
        long,
        value_enum,
        value_name = "auto|on|off",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = CardStamps::Auto,
        default_missing_value = "on",
        hide_possible_values = true
    )]
    pub(crate) hardware_stamps: CardStamps,
}

/// Use of a network card's stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CardStamps {
    Auto,
    On,
    Off,
}

/// True if clients of a protocol take stamps of a card.
fn takes_card_stamps(protocol: Protocol) -> bool {
    protocol == protocols::NATIVE
}

impl DatagramArgs {
    /// Permits changes of cards' stamp settings, if the user asked for it and it is of use: a card
    /// is not changed for nothing.
    pub(crate) fn permit_card_change(&self, protocol: Protocol) -> Result<(), CliError> {
        if self.hardware_stamps != CardStamps::On {
            return Ok(());
        }
        if !takes_card_stamps(protocol) {
            return Err(CliError::usage(format!(
                "--hardware-stamps: clients of {protocol} take no stamps of a network card; clients of native do"
            )));
        }
        if self.no_stamps {
            return Err(CliError::usage(
                "--hardware-stamps needs the kernel's stamps, with which a card's are compared: leave out --no-stamps",
            ));
        }
        runtime::permit_card_change();
        Ok(())
    }
}

/// Senders' ways of waiting.
pub(crate) const WAITING: Named<Waiting> = &[
    ("block", "Sleep until it is due: some 25 to 60 µs late", Waiting::Block),
    ("hybrid", "Sleep until shortly before, then spin", Waiting::Hybrid),
    ("spin", "Never sleep: a core for each worker", Waiting::Spin),
];

/// Options of UDP sockets for `protocol`.
pub(crate) fn sockets(args: &DatagramArgs, protocol: Protocol) -> SocketSettings {
    let card = takes_card_stamps(protocol) && args.hardware_stamps != CardStamps::Off;
    SocketSettings {
        sndbuf: args.sndbuf,
        rcvbuf: Some(args.rcvbuf),
        dscp: args.header.dscp,
        ecn: args.ecn.ecn.map(|(ecn, _)| ecn),
        ttl: args.header.ttl,
        gso: !args.no_gso,
        gro: args.gro,
        stamps: !args.no_stamps,
        card_stamps: card && !args.no_stamps,
        dont_fragment: args.df.as_deref().map(|df| df == "on"),
        ..SocketSettings::default()
    }
}

/// A sender's way of waiting; `busy` is short for spinning.
pub(crate) fn waiting(wait: Waiting, busy: bool) -> Waiting {
    if busy { Waiting::Spin } else { wait }
}
