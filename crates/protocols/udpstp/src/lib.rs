//! UDPSTP, the UDP Speed Test Protocol (RFC 9946): the highest rate of IP packets that a path
//! carries in one direction (RFC 9097), either end.
//!
//! ```text
//! client                                   server
//!   Setup Request ───────────────────────────▶  control port
//!   ◀───────────────────────── Setup Response   with the port of the test
//!   Activation Request ──────────────────────▶  port of the test
//!   ◀──────────────────── Activation Response   with the parameters in force
//!     to the client:    ◀═══ Load ═══   ═══ Status ═══▶
//!     to the server:    ═══ Load ═══▶   ◀═══ Status ═══   with the row of the rate
//!   ◀─────────────────── a PDU that says stop
//!   a PDU that says stop ────────────────────▶
//! ```
//!
//! - [`codec`]: the PDUs; `codec/seal.rs` has their authentication.
//! - `setup`, `activate`, `open`: a client's connections; `listen`, `admission`: a server's.
//! - Load and reports behind the activation, the search for the rate and the result are
//!   [`common::capacity`]'s.
//!
//! `docs/protocols/udpstp.md` has the details.
#![forbid(unsafe_code)]

mod activate;
mod admission;
pub mod codec;
mod compat;
mod keys;
mod listen;
mod open;
mod report;
mod settings;
mod setup;

use common::{one_sided, protocol};

use crate::one_sided::OneSidedProtocol;
use crate::protocol::{Info, Legacy, refused};
pub use keys::KeyFile;
pub use listen::acceptors;
use model::{Count, Counts, CountsByWay, EndCounts, Kind, Pattern, Phase};
pub use open::connectors;
pub use report::{Activated, EndReport, News, Report, SubIntervalReport, Warning, report_of};
pub use settings::Settings;

/// Name of the protocol, and of its results.
const NAME: &str = "udpstp";
/// The control port (UDP).
pub const PORT: u16 = 24_601;

/// Counts in a server's reports of an upstream test.
const REPORTED: Counts = Counts::of(&[
    Count::ReceivedBytes,
    Count::ReceivedDatagrams,
    Count::LostDatagrams,
    Count::ReorderedDatagrams,
]);

/// The protocol of RFC 9946.
pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        questions: "netcaliper capacity, udpst",
        keyed: true,
        settings: Some(NAME),
        capacity: true,
        one_server: false,
        legacy: Some(Legacy {
            over: "UDP",
            serves: Legacy::LOCAL,
            short: Some("Serve capacity tests by UDPSTP (RFC 9946, UDP): the same as --legacy udpstp"),
            key: Some(settings::KEY),
            options: settings::OF_SERVER,
            notice: compat::notice,
            phase: || Settings::of_server().phase(Pattern::Push, 1),
            config: |config| {
                if let Some(psk) = config.keys.psk() {
                    KeyFile::of(psk)?;
                }
                Ok(config)
            },
            ..Legacy::PLAIN
        }),
        originals: compat::ORIGINALS,
        counts: EndCounts {
            client: CountsByWay { up: Counts::SENDER.and(REPORTED), ..EndCounts::OWN.client },
            ..EndCounts::OWN
        },
        ..Info::new(NAME, PORT)
    },
    carries,
    connectors,
    acceptors,
};

fn carries(phase: &Phase) -> Result<(), &'static str> {
    let Some(settings) = Settings::of(phase).filter(|_| phase.kind == Kind::Capacity) else {
        return Err("measures capacity only: use netcaliper capacity, or udpst");
    };
    refused([(phase.probe.is_some(), "has datagrams of its own")])?;
    settings.check(phase)
}
