//! The rules of ARCHITECTURE.md that neither the compiler nor clippy checks. `cargo metadata` has
//! the dependencies; sources are searched as text.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Our crates that the crate in `crates/<name>` may use, or each in the folder `protocols` without
/// a row of its own. ARCHITECTURE.md, "Crates", says the same.
const MAY_USE: &[(&str, &str)] = &[
    ("metrics", "none"),
    ("transport", "metrics, model"),
    ("model", "metrics"),
    ("compat", "metrics, model"),
    ("protocols/common", "compat, metrics, model, transport"),
    (EACH_PROTOCOL, "compat, metrics, model, protocols/common, transport"),
    ("io", "metrics, transport"),
    ("engine", "metrics, model, transport; its tests io"),
    ("runtime", "engine, io, metrics, model, protocols/common, transport"),
    ("sim", "engine, metrics, model, transport"),
    ("console", "model, report, runtime"),
    ("report", "metrics, model; its tests screen"),
    ("screen", "metrics, model, report"),
    ("doctor", "metrics, model, report"),
    ("lab", "io, metrics, transport"),
    ("store", "metrics, model"),
    ("web", "model, report, store"),
    ("export", "metrics, report; its tests model"),
    ("fleet", "io, metrics, model, report, transport"),
    (
        "cli",
        "compat, console, doctor, export, fleet, lab, metrics, model, protocols/*, protocols/common, report, runtime, screen, store, transport, web",
    ),
    ("protocols/tests", "metrics, model, protocols/*, protocols/common, sim, transport"),
];
/// Every crate in `crates/protocols/` without a row of its own. None of them may use another.
const EACH_PROTOCOL: &str = "protocols/*";
/// Parts the crates that a crate may use from those that only its tests may.
const TESTS_ONLY: &str = "; its tests ";

/// The only crate with unsafe code.
const UNSAFE: &str = "io";
/// Crates that know no clock, socket or sleep; their own `clippy.toml` says so.
const PURE: [&str; 4] = ["metrics", "transport", "model", "protocols"];
/// Most lines of production code of a crate, and most fields of a struct that needs no reason.
const MOST_LINES: usize = 10_000;
const MOST_FIELDS: usize = 20;
/// Names that only a protocol, or a program that speaks it, has; and the folder of its crate.
/// Longer names first: `ntttcp` is not `ttcp`.
const PROTOCOLS: [(&str, &str); 10] = [
    ("bwdelaytester", "protocols/bwdelaytester"),
    ("ctstraffic", "protocols/ctstraffic"),
    ("chargen", "protocols/discard"),
    ("rttcpip", "protocols/echo"),
    ("iperf3", "protocols/iperf3"),
    ("ntttcp", "protocols/ntttcp"),
    ("tcpmon", "protocols/udpmon"),
    ("udpmon", "protocols/udpmon"),
    ("udpstp", "protocols/udpstp"),
    ("ttcp", "protocols/ttcp"),
];
/// The binary's table, which names them all.
const TABLE: &str = "cli/src/protocols.rs";
/// The modules of the binary from the ground up: each imports those before it only.
const LAYERS: [&str; 11] = [
    "provenance",
    "config",
    "protocols",
    "args",
    "outputs",
    "runs",
    "verbs",
    "originals",
    "fleet",
    "command",
    "main",
];
/// Pages whose promises name the tests that hold them.
const PROMISES: [&str; 2] = ["docs/security.md", "docs/fleet-reach.md"];

#[test]
fn crates_use_only_what_the_table_allows() {
    for (dir, uses) in &*CRATES {
        let allowed = MAY_USE.iter().find(|(name, _)| *name == row(dir));
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("crates/{dir} has no row in this test's table"));
        let (always, in_tests) = allowed.split_once(TESTS_ONLY).unwrap_or((allowed, ""));
        for (used, is_test) in uses {
            let may = |list: &str| list.split(", ").any(|name| name == row(used));
            let fits = may(always) || *is_test && may(in_tests);
            assert!(fits, "crates/{dir} uses {used}, which the table does not allow it ({allowed})");
        }
    }
}

#[test]
fn the_table_in_architecture_md_is_the_same() {
    let text = read(&root().join("ARCHITECTURE.md"));
    for (name, may_use) in MAY_USE {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for {name}"));
        assert!(row.ends_with(&format!("| {may_use} |")), "the row of `{name}`, expected {may_use}: {row}");
    }
}

#[test]
fn modules_of_the_binary_import_only_lower_layers() {
    let layer = |module: &str| {
        let at = LAYERS.iter().position(|layer| *layer == module);
        at.unwrap_or_else(|| panic!("crates/cli/src/{module} has no place in this test's list of layers"))
    };
    let folder = root().join("crates/cli/src");
    for source in production().filter(|source| source.dir == "cli") {
        let path = source.path.strip_prefix(&folder).unwrap();
        let own = path.iter().next().and_then(|first| first.to_str()).unwrap().trim_end_matches(".rs");
        let (own_layer, is_root_child) = (layer(own), path.iter().count() == 1);
        let text =
            if is_root_child { source.kept.replace("super::", "crate::") } else { source.kept.clone() };
        for used in imported(&text).into_iter().filter(|used| *used != own) {
            assert!(layer(used) < own_layer, "{own} stands below {used}, and {} imports it", path.display());
        }
    }
    let listed = LAYERS.map(|layer| format!("`{layer}`")).join(", ");
    assert!(read(&root().join("ARCHITECTURE.md")).contains(&listed), "ARCHITECTURE.md lists no {listed}");
}

/// Modules of the crate's root that paths of `code` begin with.
fn imported(code: &str) -> Vec<&str> {
    let name = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let mut all = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            all.push(&rest[..name(rest)]);
            continue;
        };
        let mut depth = 0;
        let mut begins = true;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && c.is_alphabetic() => {
                    all.push(&list[at..at + name(&list[at..])]);
                    begins = false;
                }
                _ => {}
            }
        }
    }
    all
}

#[test]
fn imported_modules_are_found_in_paths_and_lists() {
    let code = "use crate::args::{self, Named};\nuse crate::{file,\nruns::{kept, saved},\nstdout};\nlet a = crate::verbs::b();";
    assert_eq!(imported(code), ["args", "file", "runs", "stdout", "verbs"]);
}

/// The workspace denies `unsafe_code`: every crate takes its lints from there, and one lifts it.
#[test]
fn unsafe_code_lives_in_one_crate() {
    for dir in CRATES.keys() {
        let manifest = read(&root().join("crates").join(dir).join("Cargo.toml"));
        assert!(manifest.contains("[lints]\nworkspace = true\n"), "crates/{dir} has lints of its own");
    }
    let lifts = |line: &str| line.contains("unsafe_code") && !line.contains("forbid(unsafe_code)");
    let found = SOURCES.iter().filter(|source| source.dir != UNSAFE && !source.path.ends_with(file!()));
    let found: Vec<_> = found.filter(|source| source.text.lines().any(lifts)).map(|s| &s.path).collect();
    assert!(found.is_empty(), "the lint that bans unsafe code is lifted outside crates/{UNSAFE}: {found:#?}");
}

#[test]
fn pure_crates_ban_clocks_sockets_and_sleeps() {
    for dir in PURE {
        let lints = read(&root().join("crates").join(dir).join("clippy.toml"));
        for banned in ["Instant::now", "SystemTime::now", "thread::sleep", "net::TcpStream", "net::UdpSocket"]
        {
            assert!(lints.contains(banned), "crates/{dir}/clippy.toml no longer bans {banned}");
        }
    }
}

/// `native`, `echo`, `discard` and `stamp` mean other things as well; the manifests tell who uses
/// their crates.
#[test]
fn a_protocol_is_named_only_by_its_crate_and_the_table() {
    let mut found = Vec::new();
    for source in production().filter(|source| !source.path.ends_with(TABLE)) {
        let (code, literals) = code_and_literals(&source.kept);
        found.extend(foreign_names(&code, &literals, &source.dir).map(|name| (&source.path, name)));
    }
    assert!(found.is_empty(), "protocols named outside their crates and {TABLE}: {found:#?}");
}

/// Their comments are help. Lists of protocols in it are made of `Info`; examples (`help.rs`) may
/// name one.
#[test]
fn shared_options_name_no_protocol() {
    let folder = root().join("crates/cli/src");
    let is_shared = |path: &Path| path == folder.join("args.rs") || path.starts_with(folder.join("args"));
    let shared = production().filter(|source| is_shared(&source.path) && !source.path.ends_with("help.rs"));
    for source in shared {
        let text = source.text.split("#[cfg(test)]").next().unwrap().to_lowercase();
        let named: Vec<_> = PROTOCOLS.iter().filter(|(name, _)| text.contains(name)).collect();
        assert!(named.is_empty(), "{} names {named:?}", source.path.display());
    }
}

/// Protocols of other crates than the one in `dir` that identifiers contain, or literals are.
fn foreign_names<'a>(code: &str, literals: &'a str, dir: &'a str) -> impl Iterator<Item = &'static str> {
    let mut code = code.to_lowercase();
    PROTOCOLS.into_iter().filter_map(move |(name, of)| {
        let is_named = code.contains(name) || literals.lines().any(|one| one.eq_ignore_ascii_case(name));
        code = code.replace(name, "-");
        (is_named && of != dir).then_some(name)
    })
}

#[test]
fn names_of_protocols_are_found_in_identifiers_and_literals() {
    let named = |source: &str, dir: &str| {
        let (code, literals) = code_and_literals(&kept(source));
        foreign_names(&code, &literals, dir).collect::<Vec<_>>()
    };
    for guilty in ["fn of_ttcp() {}", "struct NtttcpView;", "const A: &str = \"iperf3\";", "mod udpmons;"] {
        assert_eq!(named(guilty, "report").len(), 1, "{guilty}");
    }
    let innocent = "// ttcp\nconst A: &str = \"as \\\"ttcp does\"; // ttcp\n#[cfg(test)]\nmod tests {\n    fn ttcp() {}\n}\n";
    assert!(named(innocent, "report").is_empty());
    assert_eq!(named("fn ntttcp_and_rttcpip() {}", "protocols/ntttcp"), ["rttcpip"]);
}

/// The judgement of both ends' counts (`model::ending`) follows what a session proposes there.
#[test]
fn a_session_ends_in_its_driver_alone() {
    let of_programs = |path: &Path| path.ends_with("original.rs") || path.iter().any(|part| part == "compat");
    let found = production().filter(|source| source.dir.starts_with("protocols/"));
    let found = found.filter(|source| source.kept.contains("Event::PhaseEnd") && !of_programs(&source.path));
    let found: Vec<_> = found.map(|source| source.path.strip_prefix(root()).unwrap()).collect();
    assert_eq!(found, [Path::new("crates/protocols/common/src/driver.rs")]);
}

/// A flow that waits in vain has a `Patience`, with a name and a limit.
#[test]
fn a_stalled_peer_is_the_end_of_a_wait_with_a_limit() {
    let makes = |source: &Source| source.kept.contains("Violation::Stalled(Duration::from");
    let found: Vec<_> = production()
        .filter(|source| makes(source))
        .map(|source| source.path.strip_prefix(root()).unwrap())
        .collect();
    assert_eq!(found, [Path::new("crates/transport/src/patience.rs")]);
}

/// Rows of a page's tables that have a column "held by".
fn rows_of_promises(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let tables = lines.chunk_by(|before, line| before.starts_with('|') == line.starts_with('|'));
    let held = tables.filter(|table| table[0].starts_with('|') && table[0].contains("held by"));
    held.flat_map(|table| table.iter().skip(2)).copied().collect()
}

#[test]
fn promises_name_tests_that_exist() {
    let is_path = |text: &&str| {
        text.contains("::") && text.chars().all(|c| c.is_ascii_lowercase() || "_:0123456789".contains(c))
    };
    for page in PROMISES {
        let text = read(&root().join(page));
        let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(is_path).collect();
        assert!(!named.is_empty(), "{page} names no test");
        let rows = rows_of_promises(&text);
        assert!(!rows.is_empty(), "{page} has no table with a column 'held by'");
        let bare = rows.iter().find(|row| !row.contains("::"));
        assert!(bare.is_none(), "{page}: a promise without a test: {bare:?}");
        for path in named {
            let parts: Vec<&str> = path.split("::").filter(|part| *part != "tests").collect();
            let (module, name) = (parts[0], format!("fn {}(", parts[parts.len() - 1]));
            let is_module =
                |path: &Path| path.with_extension("").iter().any(|part| part.to_str() == Some(module));
            let has = |source: &Source| {
                is_module(&source.path) && (parts.len() == 1 || source.text.contains(&name))
            };
            assert!(SOURCES.iter().any(has), "{page}: there is no test {path}");
        }
    }
}

#[test]
fn no_crate_is_too_large() {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for source in production() {
        *lines.entry(&source.dir).or_default() += source.kept.lines().count();
    }
    let large: Vec<_> = lines.into_iter().filter(|(_, lines)| *lines > MOST_LINES).collect();
    assert!(
        large.is_empty(),
        "crates of more than {MOST_LINES} lines of code, to be split or shortened: {large:?}"
    );
}

#[test]
fn a_wide_struct_says_why() {
    let found: Vec<_> =
        production().flat_map(|source| wide_structs(&source.text).map(|at| (&source.path, at))).collect();
    let rule = "has a comment that begins with 'Wide:'";
    assert!(found.is_empty(), "a struct of more than {MOST_FIELDS} fields {rule}: {found:#?}");
    let fields: String = (0..21).map(|n| format!("    /// A: b.\n    pub(crate) f{n}: u8,\n")).collect();
    let wide = |doc: &str| format!("{doc}#[derive(Debug)]\npub(super) struct Wide {{\n{fields}}}\n");
    assert_eq!(wide_structs(&wide("/// All of it.\n")).count(), 1);
    assert_eq!(wide_structs(&wide("/// All of it.\n/// Wide: an option each.\n")).count(), 0);
}

/// Lines that begin structs with too many fields and without a reason in their comment.
fn wide_structs(text: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = text.lines().collect();
    let is_field = |line: &&str| {
        let field = line.strip_prefix("    ").and_then(|line| line.split_once(": "));
        field.is_some_and(|(name, _)| !name.starts_with([' ', '/', '#']))
    };
    let is_wide = move |at: usize| {
        let fields = lines[at..].iter().take_while(|line| **line != "}").copied().filter(is_field).count();
        let head =
            lines[..at].iter().rev().take_while(|line| line.starts_with("//") || line.starts_with("#["));
        fields > MOST_FIELDS && !head.into_iter().any(|line| line.contains("// Wide: "))
    };
    let begins = |line: &str| line.ends_with('{') && line.contains("struct ");
    text.lines().enumerate().filter(move |(at, line)| begins(line) && is_wide(*at)).map(|(_, line)| line)
}

/// A source of one of our crates.
struct Source {
    /// The folder of its crate, below `crates/`.
    dir: String,
    path: PathBuf,
    text: String,
    /// Its code without tests, comments and empty lines.
    kept: String,
}

/// The sources of all crates, read once for all tests.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for dir in CRATES.keys() {
        let mut folders = vec![root().join("crates").join(dir)];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") {
                    let text = read(&path);
                    all.push(Source { dir: dir.clone(), kept: kept(&text), path, text });
                }
            }
        }
    }
    all
});

/// Sources of what is shipped, without files that hold only tests: `tests.rs`, and modules declared
/// behind `#[cfg(test)]`.
fn production() -> impl Iterator<Item = &'static Source> {
    static TESTS: LazyLock<BTreeSet<PathBuf>> = LazyLock::new(|| {
        let mut tests = BTreeSet::new();
        for Source { path, text, .. } in &*SOURCES {
            for (module, _) in
                text.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| rest.split_once(';'))
            {
                let file = format!("{module}.rs");
                tests.insert(path.with_extension("").join(&file));
                tests.insert(path.with_file_name(file));
            }
        }
        tests
    });
    let is_test = |path: &Path| {
        path.ends_with("tests.rs") || path.iter().any(|part| part == "conformance") || TESTS.contains(path)
    };
    SOURCES.iter().filter(move |source| {
        let folder = root().join("crates").join(&source.dir).join("src");
        !["protocols/tests", "sim"].contains(&source.dir.as_str())
            && source.path.starts_with(folder)
            && !is_test(&source.path)
    })
}

/// Code without its tests, which stand last, comments and empty lines.
fn kept(source: &str) -> String {
    let inline = source.match_indices("#[cfg(test)]\nmod ");
    let inline =
        inline.map(|(at, _)| at).find(|at| source[*at..].lines().nth(1).unwrap_or("").ends_with('{'));
    let mut kept = String::new();
    for line in source[..inline.unwrap_or(source.len())].lines().map(str::trim) {
        // A comment behind code, outside of literals.
        let code = line.split_once(" // ").map_or(line, |(code, _)| code);
        let quotes = code.matches('"').count() - code.matches("\\\"").count();
        let code = if quotes % 2 == 0 { code } else { line };
        if !code.is_empty() && !code.starts_with("//") {
            kept.push_str(code);
            kept.push('\n');
        }
    }
    kept
}

/// Code with its literals taken out, and the literals, one a line.
fn code_and_literals(kept: &str) -> (String, String) {
    let plain = kept.replace(r"\\", "").replace("\\\"", "").replace("'\"'", "").replace("b'\"'", "");
    let parts: Vec<&str> = plain.split('"').collect();
    (
        parts.iter().step_by(2).copied().collect(),
        parts.iter().skip(1).step_by(2).map(|one| format!("{one}\n")).collect(),
    )
}

/// The folders of our crates below `crates/`, and the folders of those that each uses: whether only
/// in tests.
static CRATES: LazyLock<BTreeMap<String, Vec<(String, bool)>>> = LazyLock::new(|| {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let crates = format!("{}/crates/", metadata["workspace_root"].as_str().unwrap());
    let dir =
        |path: &Value| Some(path.as_str()?.strip_prefix(&crates)?.trim_end_matches("/Cargo.toml").to_owned());
    let mut all = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let Some(own) = dir(&package["manifest_path"]) else { continue };
        let uses = package["dependencies"].as_array().unwrap().iter();
        let uses = uses.filter_map(|one| Some((dir(&one["path"])?, one["kind"] == "dev")));
        // A crate's tests may ask for features of it that the others do without.
        let uses = uses.filter(|(used, _)| *used != own).collect();
        all.insert(own, uses);
    }
    all
});

/// The name of the row for the crate in `crates/<dir>`.
fn row(dir: &str) -> &str {
    let own = MAY_USE.iter().any(|(name, _)| *name == dir);
    if dir.starts_with("protocols/") && !own { EACH_PROTOCOL } else { dir }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("reading {}: {e}", path.display()))
}
