//! Agents in builds that have them.

use super::AgentArgs;
use crate::args::{key, values};
use crate::fleet::questions;
use crate::fleet::secure::Keyed;
use crate::provenance;
use crate::verbs::serve::{Beside, FLEET_PORT, ServeArgs};
use common::Keyring;
use console::error::{CliError, Context as _, Exit};
use console::{file, signals, stderr};
use fleet::agent::{self, Agent, Ceilings, Input, OwnLock};
use fleet::spool::Spool;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};

/// The two ends of the input channel of an agent's loop.
type Inputs = (Sender<Input>, Receiver<Input>);

/// Longest test that a fleet's controller may order of a server whose --max-time says nothing else,
/// ns.
const ORDERED_NS: u64 = 600 * metrics::SECOND;

/// Serves controllers until they are gone.
pub(crate) fn agent(args: &AgentArgs) -> Result<Exit, CliError> {
    if args.remove_program {
        // The processes that it starts need no file of the program.
        std::env::current_exe().and_then(std::fs::remove_file).context("cannot remove the copied program")?;
    }
    let ceilings = Ceilings {
        rate: args.max_rate,
        time_ns: args.max_time,
        share: args.max_share.unwrap_or(1.0),
        targets: args.target.clone(),
        ..Ceilings::default()
    };
    let resource = args.resource.clone().unwrap_or_else(agent::own_resource);
    let spool = args.spool.clone().map_or_else(|| usual_spool(&resource), Ok)?;
    let (mut agent, inputs) = make(ceilings, resource, spool, args.port);
    if let (Some(listen), Some(key)) = (&args.listen, &args.psk_file) {
        let secure = Keyed(key::keys_in(key, args.insecure_key_file)?);
        let address =
            values::listen_addresses(std::slice::from_ref(listen), FLEET_PORT).map_err(CliError::usage)?;
        let listener = TcpListener::bind(&address[..]).context(format_args!("cannot listen on {listen}"))?;
        // A signal may follow the line that names the address at once.
        end_on_signals(&inputs.0)?;
        if let Ok(at) = listener.local_addr() {
            stderr::say(format_args!("netcaliper: agent listens on {at}"));
        }
        let served = fleet::transport::direct::serve(&mut agent, &inputs, vec![listener], secure);
        return served.map(|()| Exit::Good).map_err(CliError::failed);
    }
    #[cfg(feature = "nats")]
    if let Some(server) = args.nats.server()? {
        end_on_signals(&inputs.0)?;
        let name = args.name.clone().unwrap_or_else(host_name);
        let served = fleet::transport::nats::serve(&mut agent, &inputs, server, &name, stderr::say_sentence);
        return served.map(|()| Exit::Good).map_err(CliError::failed);
    }
    #[cfg(not(feature = "nats"))]
    args.nats.refuse()?;
    agent::serve(&mut agent, &inputs).map_err(CliError::failed)?;
    Ok(Exit::Good)
}

/// An agent, and the input channel of its loop.
fn make(ceilings: Ceilings, resource: String, spool: PathBuf, port: u16) -> (Agent, Inputs) {
    let (happens, inputs) = std::sync::mpsc::channel();
    let tell = happens.clone();
    // The loop may be over when a process ends.
    let happened = move |happened| drop(tell.send(Input::Happened(happened)));
    let lock = Box::new(OwnLock::new(&resource));
    let programs = Box::new(agent::Child::new(port, happened));
    let program = provenance::VERSION.to_owned();
    let spool = Spool::open(spool);
    let agent = Agent::new(resource, program, ceilings, spool, lock, programs, questions::demand);
    (agent, (happens, inputs))
}

/// Takes orders at these addresses from controllers with one of these keys, within these ceilings.
/// At the end of the server, tests that run end in their time.
fn listen(addresses: &[SocketAddr], keys: Keyring, ceilings: Ceilings) -> Result<Beside, CliError> {
    let bind = |address: &SocketAddr| {
        TcpListener::bind(address).context(format_args!("cannot listen for orders on {address}"))
    };
    let listeners: Vec<TcpListener> = addresses.iter().map(bind).collect::<Result<_, _>>()?;
    let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let resource = agent::own_resource();
    let spool = usual_spool(&resource)?;
    let (tell, told) = std::sync::mpsc::channel();
    // The processes of an agent end with the thread that started them.
    let thread = std::thread::Builder::new().name("agent".to_owned()).spawn(move || {
        let (mut agent, inputs) = make(ceilings, resource, spool, 0);
        drop(tell.send(inputs.0.clone()));
        fleet::transport::direct::serve(&mut agent, &inputs, listeners, Keyed(keys))
    });
    let thread = thread.context("cannot start a thread")?;
    let inputs = told.recv().map_err(|_| CliError::failed("the agent did not start"))?;
    let end = move || {
        drop(inputs.send(Input::Gone(None)));
        thread.join().unwrap_or_else(|_| Err("the agent ended".to_owned())).map_err(CliError::failed)
    };
    Ok(Beside { addresses, end: Box::new(end) })
}

/// The agent that takes orders of fleets beside a server, if any are taken.
pub(crate) fn orders(args: &ServeArgs) -> Result<Option<Beside>, CliError> {
    if args.fleet.is_empty() {
        return Ok(None);
    }
    let keys = key::of_server(&args.key, args.client_keys.as_deref())?;
    if keys.shared.is_empty() {
        return Err(CliError::usage(
            "--fleet goes with shared keys, which controllers prove: give --psk-file (`netcaliper key new FILE` makes one)",
        ));
    }
    let ceilings = Ceilings {
        rate: args.max_rate,
        time_ns: args.max_time.unwrap_or(ORDERED_NS),
        share: 1.0,
        targets: args.fleet.clone(),
        ..Ceilings::default()
    };
    let mut addresses = values::listen_addresses(&args.listen, args.port).map_err(CliError::usage)?;
    addresses.iter_mut().for_each(|address| address.set_port(args.fleet_port));
    listen(&addresses, keys, ceilings).map(Some)
}

/// At a request to end, the tests that run end in their time.
fn end_on_signals(inputs: &Sender<Input>) -> Result<(), CliError> {
    let inputs = inputs.clone();
    signals::on_first_request(move || drop(inputs.send(Input::Gone(None))))
}

/// The name of this host.
#[cfg(feature = "nats")]
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "host".to_owned(), |name| name.trim().to_owned())
}

/// The folder of results that wait for a controller: its name is made of what tests occupy.
fn usual_spool(resource: &str) -> Result<PathBuf, CliError> {
    Ok(file::state_folder()?.join("fleet").join(folder_name(resource)))
}

/// A name for a folder, of any text.
fn folder_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Cli;
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

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn ceilings_bound_what_is_asked_for() {
        let ceilings =
            Ceilings { rate: Some(8_000_000), time_ns: 10 * metrics::SECOND, ..Ceilings::default() };
        let within = |ceilings: &Ceilings, verb, text: &str| {
            agent::options::limited(verb, &words(text), ceilings, questions::demand).map(|(more, _)| more)
        };
        let limit = |verb, text: &str| within(&ceilings, verb, text);
        // The words keep the ceiling, and so does the engine of the test.
        let more = |text| limit(Verb::Tcp, text).unwrap().join(" ");
        assert_eq!(more("-P 2 -t 5s"), "--rate 4000000 --at-most 8000000");
        assert_eq!(more(""), "--rate 1000000 --at-most 8000000", "eight connections are the default");
        assert_eq!(more("-P 2 -b 3M"), "--at-most 6000000");
        assert!(limit(Verb::Tcp, "-P 3 -b 4M").is_err());
        assert!(limit(Verb::Tcp, "-t 11s").unwrap_err().contains("longer"));
        assert!(limit(Verb::Ping, "--flood").is_err() && limit(Verb::Ping, "--rate 100").is_ok());
        assert!(limit(Verb::Ping, "--rate 2000 -l 1000").is_err(), "16 Mbit/s");
        assert!(limit(Verb::Delay, "--pps 100 -l 1000").is_ok());
        assert!(limit(Verb::Load, "").is_err() && limit(Verb::Train, "").is_err());
        assert_eq!(within(&Ceilings::default(), Verb::Load, "").unwrap(), [""; 0]);
        // Nothing, no number and all there is are no bounds, and neither are options that hide each
        // other.
        for (verb, text) in [
            (Verb::Delay, "-b 0"),
            (Verb::Delay, "-b 0 -P 1"),
            (Verb::Delay, "--pps 2000 -l 1000"),
            (Verb::Delay, "--pps inf"),
            (Verb::Delay, "--pps nan"),
            (Verb::Delay, "--spacing 1ns"),
            (Verb::Delay, "-b 1M --flows 9"),
            (Verb::Ping, "--rate nan"),
            (Verb::Ping, "--rate inf"),
            (Verb::Ping, "--rate 0"),
            (Verb::Ping, "--rate 1e-400"),
            (Verb::Ping, "--closed-loop -n 10"),
            (Verb::Ping, "--rate 100 -l 16M"),
            (Verb::Tcp, "-b 0"),
            (Verb::Tcp, "-b nan"),
            (Verb::Tcp, "-P 1000000 -b 9"),
            (Verb::Ping, "-n 1000 --rate 10"),
        ] {
            let refused = limit(verb, text);
            assert!(refused.is_err(), "{} {text}: {refused:?}", verb.name());
        }
        // A key's verbs bound the parts of a test.
        let key = Ceilings { verbs: Some(vec!["fleet", "ping", "tcp"]), ..Ceilings::none() };
        assert!(within(&key, Verb::Ping, "").is_ok() && within(&key, Verb::Tcp, "").is_ok());
        assert!(within(&key, Verb::Delay, "").is_err() && within(&key, Verb::Load, "").is_err());
    }

    #[test]
    fn folders_are_named_after_resources() {
        assert_eq!(folder_name("1b-2c/net:[4026531840]"), "1b-2c_net__4026531840_");
    }
}
