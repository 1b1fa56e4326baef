//! `netcaliper agent`: what a fleet's controller asks of this host.
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments here are the help text, brackets and all")]

#[cfg(feature = "fleet")]
use crate::fleet::secure::Keyed;
use crate::{CliError, Exit, values};
#[cfg(feature = "fleet")]
use crate::{file, key, plan, serve, stderr};
use clap::Args;
#[cfg(feature = "fleet")]
use common::Keyring;
#[cfg(feature = "fleet")]
use fleet::agent::{self, Agent, Ceilings, Input, OwnLock};
#[cfg(feature = "fleet")]
use fleet::spool::Spool;
#[cfg(feature = "fleet")]
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
#[cfg(feature = "fleet")]
use std::sync::mpsc::{Receiver, Sender};
#[cfg(feature = "fleet")]
use std::thread::JoinHandle;

/// The two ends of what an agent's loop waits for.
#[cfg(feature = "fleet")]
type Inputs = (Sender<Input>, Receiver<Input>);

/// Default port of agents that listen.
pub(crate) const PORT: u16 = 7412;

#[derive(Args, Debug)]
pub(crate) struct AgentArgs {
    /// Take orders from standard input and report to standard output, as `fleet run` wants it over a remote shell; end with the
    /// input.
    #[arg(long, required_unless_present_any = ["nats", "listen"], conflicts_with_all = ["nats", "listen"])]
    stdio: bool,
    /// Let controllers connect to this address, or ADDR:PORT [default port: 7412]; goes with --psk-file, the key that they have, too.
    #[arg(long, value_name = "ADDR", requires = "psk_file", conflicts_with = "nats")]
    listen: Option<String>,
    /// File with the key that controllers have to prove, one that `netcaliper key new` has made.
    #[arg(long, value_name = "FILE", env = "NETCALIPER_PSK_FILE")]
    psk_file: Option<PathBuf>,
    /// Use a key file that every user of this host can read.
    #[arg(long)]
    insecure_key_file: bool,
    /// Name of this host in inventories, for --nats [default: the host's name].
    #[arg(long, value_name = "NAME", requires = "nats")]
    name: Option<String>,
    #[command(flatten)]
    nats: crate::nats::NatsArgs,
    /// Port of the server that the agent starts for tests; where it is taken, and with 0, any other.
    #[arg(short, long, default_value_t = native::PORT, value_parser = values::port)]
    port: u16,
    /// What tests occupy here: agents with the same NAME count as one host [default: boot and network namespace].
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Folder in which results wait until a controller has them [default: netcaliper/fleet in $STATE_DIRECTORY, $XDG_STATE_HOME or
    /// ~/.local/state].
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Most bits per second of a test and direction, 8 and more [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = values::limit, help_heading = "Ceilings, above which no order is taken")]
    max_rate: Option<u64>,
    /// Longest test.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::duration,
        help_heading = "Ceilings, above which no order is taken")]
    max_time: u64,
    /// Largest share of the time (of 10 minutes) in which tests run, other than background ones: 0.1 or 10% [default: all].
    #[arg(long, value_name = "SHARE", value_parser = values::share, help_heading = "Ceilings, above which no order is taken")]
    max_share: Option<f64>,
    /// Run tests to this host or network only, such as lab2 or 192.0.2.0/24; repeatable [default: any].
    #[arg(long, value_name = "TARGET", help_heading = "Ceilings, above which no order is taken")]
    target: Vec<String>,
    /// Remove the file of this program now: the agent was copied here for one run.
    #[arg(long, hide = true)]
    remove_program: bool,
}

/// Serves controllers until they are gone.
#[cfg(not(feature = "fleet"))]
pub(crate) fn agent(_: &AgentArgs) -> Result<Exit, CliError> {
    Err(CliError::usage("this netcaliper was built without fleets (cargo build --release --features fleet)"))
}

/// Serves controllers until they are gone.
#[cfg(feature = "fleet")]
pub(crate) fn agent(args: &AgentArgs) -> Result<Exit, CliError> {
    if args.remove_program {
        remove_program()?;
    }
    let ceilings = Ceilings {
        rate: args.max_rate,
        time_ns: args.max_time,
        share: args.max_share.unwrap_or(1.0),
        targets: args.target.clone(),
    };
    let resource = args.resource.clone().unwrap_or_else(agent::own_resource);
    let spool = match &args.spool {
        Some(folder) => folder.clone(),
        None => state_folder()?.join("fleet").join(folder_name(&resource)),
    };
    let (mut agent, inputs) = make(ceilings, resource, spool, args.port);
    if let (Some(listen), Some(key)) = (&args.listen, &args.psk_file) {
        let secure = Keyed(key::keys_in(key, args.insecure_key_file)?);
        let address = serve::listen_addresses(std::slice::from_ref(listen), PORT).map_err(CliError::usage)?;
        let listener = TcpListener::bind(&address[..]);
        let listener = listener.map_err(|e| CliError::failed(format!("cannot listen on {listen}: {e}")))?;
        if let Ok(at) = listener.local_addr() {
            stderr::say(format_args!("netcaliper: agent listens on {at}"));
        }
        end_on_signals(&inputs.0)?;
        let served = fleet::transport::direct::serve(&mut agent, &inputs, vec![listener], secure);
        return served.map(|()| Exit::Good).map_err(CliError::failed);
    }
    #[cfg(feature = "nats")]
    if let Some(server) = args.nats.server()? {
        end_on_signals(&inputs.0)?;
        let name = args.name.clone().unwrap_or_else(host_name);
        let served = fleet::transport::nats::agent::serve(&mut agent, &inputs, server, &name, stderr::tell);
        return served.map(|()| Exit::Good).map_err(CliError::failed);
    }
    #[cfg(not(feature = "nats"))]
    args.nats.refuse()?;
    agent::serve(&mut agent, &inputs).map_err(CliError::failed)?;
    Ok(Exit::Good)
}

/// An agent, and what its loop waits for.
#[cfg(feature = "fleet")]
fn make(ceilings: Ceilings, resource: String, spool: PathBuf, port: u16) -> (Agent, Inputs) {
    let (happens, inputs) = std::sync::mpsc::channel();
    let tell = happens.clone();
    // The loop may be over when a process ends.
    let happened = move |happened| drop(tell.send(Input::Happened(happened)));
    let lock = Box::new(OwnLock::new(&resource));
    let programs = Box::new(agent::Child::new(ceilings.clone(), port, happened));
    let program = plan::VERSION.to_owned();
    let agent = Agent::new(resource, program, ceilings, Spool::open(spool), lock, programs);
    (agent, (happens, inputs))
}

/// An agent beside a server, in the same process.
#[cfg(feature = "fleet")]
pub(crate) struct Beside {
    inputs: Sender<Input>,
    thread: JoinHandle<Result<(), String>>,
    addresses: Vec<SocketAddr>,
}

#[cfg(feature = "fleet")]
impl Beside {
    /// Takes orders at these addresses from controllers with one of these keys, within these ceilings.
    pub(crate) fn start(
        addresses: &[SocketAddr],
        keys: Keyring,
        ceilings: Ceilings,
    ) -> Result<Beside, CliError> {
        let bind = |address: &SocketAddr| {
            TcpListener::bind(address)
                .map_err(|e| CliError::failed(format!("cannot listen for orders on {address}: {e}")))
        };
        let listeners: Vec<TcpListener> = addresses.iter().map(bind).collect::<Result<_, _>>()?;
        let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let resource = agent::own_resource();
        let spool = state_folder()?.join("fleet").join(folder_name(&resource));
        let (tell, told) = std::sync::mpsc::channel();
        // The processes of an agent end with the thread that started them.
        let thread = std::thread::Builder::new().name("agent".to_owned()).spawn(move || {
            let (mut agent, inputs) = make(ceilings, resource, spool, 0);
            drop(tell.send(inputs.0.clone()));
            fleet::transport::direct::serve(&mut agent, &inputs, listeners, Keyed(keys))
        });
        let thread = thread.map_err(|e| CliError::failed(format!("cannot start a thread: {e}")))?;
        let inputs = told.recv().map_err(|_| CliError::failed("the agent did not start"))?;
        Ok(Beside { inputs, thread, addresses })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Ends it: tests that run end in their time.
    pub(crate) fn end(self) -> Result<(), CliError> {
        drop(self.inputs.send(Input::Gone(None)));
        self.thread.join().unwrap_or_else(|_| Err("the agent ended".to_owned())).map_err(CliError::failed)
    }
}

/// The tests that run end in their time; a second signal does not wait for them.
#[cfg(feature = "fleet")]
fn end_on_signals(inputs: &Sender<Input>) -> Result<(), CliError> {
    let (asked, mut is_asked) = (inputs.clone(), false);
    let end = move || {
        if std::mem::replace(&mut is_asked, true) {
            std::process::exit(130);
        }
        drop(asked.send(Input::Gone(None)));
    };
    runtime::on_end_asked(end).map_err(|e| CliError::failed(format!("cannot handle signals: {e}")))
}

/// The name of this host.
#[cfg(feature = "nats")]
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "host".to_owned(), |name| name.trim().to_owned())
}

/// Where this program keeps what it has to know later: never results of the user's runs, which are in the store.
#[cfg(feature = "fleet")]
pub(crate) fn state_folder() -> Result<PathBuf, CliError> {
    let of_service = file::folder_in("STATE_DIRECTORY").map(|folder| folder.join("netcaliper"));
    let usual = || file::own_folder("XDG_STATE_HOME", ".local/state", "LOCALAPPDATA");
    of_service.or_else(usual).ok_or_else(|| {
        CliError::failed(
            "there is no home directory to keep results in: XDG_STATE_HOME names a folder for them",
        )
    })
}

/// A name for a folder, of any text.
#[cfg(feature = "fleet")]
fn folder_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(100).collect()
}

/// Removes this program's own file. The processes that it starts need none.
#[cfg(feature = "fleet")]
fn remove_program() -> Result<(), CliError> {
    let removed = std::env::current_exe().and_then(std::fs::remove_file);
    removed.map_err(|e| CliError::failed(format!("cannot remove the copied program: {e}")))
}

#[cfg(all(test, feature = "fleet"))]
mod tests {
    use super::*;
    use crate::args::Cli;
    use fleet::plan::Verb;

    #[test]
    fn options_that_agents_take_are_options_of_the_questions() {
        let mut whole = Cli::whole();
        whole.build();
        for verb in Verb::ALL {
            let command = whole.find_subcommand_mut(verb.name()).unwrap();
            command.build();
            let (values, flags) = agent::options::allowed(verb);
            for (name, takes_value) in
                values.iter().map(|n| (*n, true)).chain(flags.iter().map(|n| (*n, false)))
            {
                let bare = name.trim_start_matches('-');
                let known = command.get_arguments().find(|arg| {
                    arg.get_long() == Some(bare)
                        || arg.get_all_aliases().is_some_and(|all| all.contains(&bare))
                        || (name.len() == 2 && arg.get_short().is_some_and(|c| bare == c.to_string()))
                });
                let known = known.unwrap_or_else(|| panic!("{} has no option {name}", verb.name()));
                assert_eq!(known.get_action().takes_values(), takes_value, "{} {name}", verb.name());
            }
        }
    }

    #[test]
    fn folders_are_named_after_resources() {
        assert_eq!(folder_name("1b-2c/net:[4026531840]"), "1b-2c_net__4026531840_");
    }
}
