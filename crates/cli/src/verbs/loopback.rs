//! A server in this process, over loopback, and clients of it.

use crate::{protocols, provenance};
use common::{ClientConfig, Keyring, Peer, ServerConfig};
use console::error::CliError;
use runtime::{Bound, EngineError, Interrupt};
use std::net::SocketAddr;
use std::thread::JoinHandle;

/// A server that runs until it is ended.
pub(crate) struct Loopback {
    address: SocketAddr,
    keys: Keyring,
    stop: Interrupt,
    thread: JoinHandle<Result<(), EngineError>>,
}

impl Loopback {
    /// Starts the server that messages call `name`, at any port of the loopback address.
    pub(crate) fn start(name: &str, config: ServerConfig) -> Result<Self, CliError> {
        let keys = config.keys.clone();
        let bound = Bound::new(ServerConfig {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            version: provenance::VERSION.to_owned(),
            ..config
        })?;
        let address = bound.addresses().first().copied();
        let address = address.ok_or_else(|| CliError::failed(format!("{name} has no address")))?;
        let stop = Interrupt::new();
        let asked = stop.clone();
        let thread = std::thread::spawn(move || bound.run(&asked, &mut |_| {}));
        Ok(Loopback { address, keys, stop, thread })
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> ClientConfig {
        ClientConfig {
            peers: vec![Peer::new("loopback", self.address)],
            keys: self.keys.clone(),
            run: runtime::run_id(),
            version: provenance::VERSION.to_owned(),
            ..ClientConfig::new(protocols::NATIVE)
        }
    }

    /// Ends the server; whether it ended well.
    pub(crate) fn end(self) -> bool {
        self.stop.ask();
        matches!(self.thread.join(), Ok(Ok(())))
    }
}
