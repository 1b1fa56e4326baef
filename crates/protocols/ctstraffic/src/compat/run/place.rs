//! Interfaces, VRFs and network namespaces: where sockets belong besides addresses.

use crate::compat::Binding;
use common::original::Refusal;
use std::fs;
use std::path::Path;

/// Marks the program that was started again within the namespace.
const INSIDE: &str = "NETCALIPER_COMPARTMENT";

/// The interface that sockets are bound to, if any. For a network namespace this program is started
/// again within it.
pub(super) fn enter(place: Option<&Binding>, command: &[String]) -> Result<Option<String>, Refusal> {
    match place {
        None => Ok(None),
        Some(Binding::Interface(index)) => by_number(*index).map(Some),
        Some(Binding::Compartment(name)) => compartment(name, command),
    }
}

fn by_number(index: u32) -> Result<String, Refusal> {
    let named = |name: &str| {
        let number = fs::read_to_string(Path::new("/sys/class/net").join(name).join("ifindex"));
        number.ok().and_then(|text| text.trim().parse::<u32>().ok())
    };
    let all = interfaces();
    all.iter().find(|name| named(name) == Some(index)).cloned().ok_or_else(|| {
        let known = all.iter().filter_map(|name| Some(format!("{} {name}", named(name)?)));
        let known = known.collect::<Vec<_>>().join(", ");
        Refusal::Usage(format!("-IfIndex:{index}: no interface has this number; there are {known}"))
    })
}

fn interfaces() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn compartment(name: &str, command: &[String]) -> Result<Option<String>, Refusal> {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == name) {
        return Ok(None);
    }
    // A name is no path.
    if !name.contains('/') && Path::new("/run/netns").join(name).exists() {
        return Err(again_within(name, command));
    }
    if interfaces().iter().any(|known| known == name) {
        return Ok(Some(name.to_owned()));
    }
    Err(Refusal::Usage(format!(
        "-Compartment:{name}: there is neither a network namespace nor an interface or VRF of this name"
    )))
}

/// Starts this program again within the namespace; returns only on failure.
#[cfg(unix)]
fn again_within(name: &str, command: &[String]) -> Refusal {
    use std::os::unix::process::CommandExt;
    let failed = |what: String| Refusal::Failed(format!("-Compartment:{name}: {what}"));
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(e) => return failed(format!("cannot find this program's file: {e}")),
    };
    // Under the name of a link its own arguments are first, under ours the original's name.
    let as_original = command.get(1).is_none_or(|word| word.starts_with('-'));
    let mut ip = std::process::Command::new("ip");
    ip.args(["netns", "exec", name]).arg(program).env(INSIDE, name);
    if as_original {
        ip.arg("ctstraffic");
    }
    failed(format!("cannot run `ip netns exec`: {}", ip.args(&command[1..]).exec()))
}

#[cfg(not(unix))]
fn again_within(name: &str, _: &[String]) -> Refusal {
    Refusal::Usage(format!("-Compartment:{name}: network namespaces are Linux's"))
}
