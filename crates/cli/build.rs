//! Passes the sources and the target of the build to the program: `netcaliper --version --verbose`.
use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=NETCALIPER_COMMIT");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let commit = Some(variable("NETCALIPER_COMMIT")).filter(|commit| !commit.is_empty());
    // A build for development is not built again because of a commit.
    let commit = commit.or_else(|| if variable("PROFILE") == "release" { checked_out() } else { None });
    set_variable("COMMIT", &commit.unwrap_or_default());
    set_variable("TARGET", &variable("TARGET"));
    // The folder is target/[TRIPLE/]PROFILE/build/…: `PROFILE` itself knows only debug and release.
    let folder = variable("OUT_DIR");
    let parts: Vec<_> = Path::new(&folder).iter().filter_map(|part| part.to_str()).collect();
    let build = parts.iter().rposition(|part| *part == "build").unwrap_or_default();
    let profile = parts.get(build.wrapping_sub(1)).copied().unwrap_or_default();
    set_variable("PROFILE", if profile == "debug" { "dev" } else { profile });
    let features =
        env::vars().filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()));
    let mut features: Vec<String> = features.map(|name| name.replace('_', "-")).collect();
    features.sort();
    let features = features.join(" ");
    set_variable("FEATURES", if features.is_empty() { "none" } else { &features });
    set_variable("RUSTC", &answer(Command::new(variable("RUSTC")).arg("--version")).unwrap_or_default());
}

fn set_variable(name: &str, value: &str) {
    println!("cargo::rustc-env=NETCALIPER_BUILD_{name}={value}");
}

/// The commit that is checked out, and whether files differ from it; `None` where this is no
/// checkout.
fn checked_out() -> Option<String> {
    let root = Path::new("../..");
    let git = |arguments: &[&str]| answer(Command::new("git").current_dir(root).args(arguments));
    // The checkout of a project that contains this one as a folder says nothing about this one.
    root.join(".git").exists().then_some(())?;
    let commit = git(&["rev-parse", "HEAD"])?;
    println!("cargo::rerun-if-changed=../../crates");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).map(|log| root.join(log))
        && log.exists()
    {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}, with changes") })
}

/// The output of `command` without the line end; `None` when it fails.
fn answer(command: &mut Command) -> Option<String> {
    let done = command.output().ok().filter(|done| done.status.success())?;
    Some(String::from_utf8(done.stdout).ok()?.trim_end().to_owned())
}
