//! The rules of ARCHITECTURE.md that neither the compiler nor clippy can check: which crate may use which, and where
//! unsafe code may live. The manifests and sources are read as plain text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Which of our crates the crate in `crates/<name>` may use, or each in the folder `protocols` that has no row of its own.
/// ARCHITECTURE.md, "Crates", says the same.
const MAY_USE: &[(&str, &[&str])] = &[
    ("metrics", &[]),
    ("transport", &["metrics", "model"]),
    ("model", &["metrics"]),
    ("compat", &["metrics", "model"]),
    ("protocols/common", &["compat", "metrics", "model", "transport"]),
    (EACH_PROTOCOL, &["compat", "metrics", "model", "protocols/common", "transport"]),
    ("io", &["metrics", "transport"]),
    ("engine", &["io", "metrics", "model", "transport"]),
    ("runtime", &["engine", "io", "metrics", "model", "protocols/common", "transport"]),
    ("sim", &["engine", "metrics", "model", "transport"]),
    ("report", &["metrics", "model"]),
    ("lab", &["io", "metrics", "transport"]),
    ("store", &["metrics", "model"]),
    ("web", &["model", "report", "store"]),
    ("fleet", &["io", "metrics", "model", "report", "transport"]),
    (
        "cli",
        &[
            "compat",
            "fleet",
            "lab",
            "metrics",
            "model",
            EACH_PROTOCOL,
            "protocols/common",
            "report",
            "runtime",
            "store",
            "transport",
            "web",
        ],
    ),
    ("protocols/tests", &["metrics", "model", EACH_PROTOCOL, "protocols/common", "sim", "transport"]),
];

/// Every crate in `crates/protocols/` that has no row of its own. None of them may use another.
const EACH_PROTOCOL: &str = "protocols/*";

/// The only crate with unsafe code.
const UNSAFE: &str = "io";

/// Crates that know no clock, socket or sleep; their own `clippy.toml` says so.
const PURE: &[&str] = &["metrics", "transport", "model", "protocols"];

#[test]
fn crates_use_only_what_the_table_allows() {
    let ours = packages().unwrap();
    for dir in ours.keys() {
        assert!(
            allowed(dir).is_some(),
            "crates/{dir} has no row in the table of this test and of ARCHITECTURE.md"
        );
    }
    for dir in ours.keys() {
        let manifest = read(&root().join("crates").join(dir).join("Cargo.toml")).unwrap();
        let may_use = allowed(dir).unwrap();
        let used = dependencies(&manifest)
            .into_iter()
            .filter_map(|name| ours.iter().find(|(folder, package)| [*folder, *package].contains(&&name)))
            .map(|(folder, _)| folder)
            // A crate's tests may ask for features of it that the others do without.
            .filter(|folder| *folder != dir);
        for name in used {
            assert!(
                may_use.contains(&row(name)),
                "crates/{dir} uses {name}, which the table does not allow it (allowed: {may_use:?})"
            );
        }
    }
}

#[test]
fn the_table_in_architecture_md_is_the_same() {
    let text = read(&root().join("ARCHITECTURE.md")).unwrap();
    let rows: BTreeMap<&str, BTreeSet<&str>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .filter(|(name, _)| allowed(name).is_some())
        .filter_map(|(name, rest)| Some((name, rest.trim_end().trim_end_matches('|').rsplit('|').next()?)))
        .map(|(name, list)| (name, list.split(',').map(str::trim).filter(|n| *n != "none").collect()))
        .collect();
    for (dir, may_use) in MAY_USE {
        let want: BTreeSet<&str> = may_use.iter().copied().collect();
        assert_eq!(rows.get(dir), Some(&want), "the row of `{dir}` in ARCHITECTURE.md, \"Crates\"");
    }
}

#[test]
fn unsafe_code_lives_in_one_crate() {
    let mut found = Vec::new();
    for Source { path, code, .. } in all_sources().iter().filter(|source| source.dir != UNSAFE) {
        found.extend(unsafe_in(code).map(|line| format!("{}:{line}", path.display())));
    }
    assert!(found.is_empty(), "unsafe code, or a lint that lets it in, outside crates/{UNSAFE}: {found:#?}");
}

#[test]
fn pure_crates_ban_clocks_sockets_and_sleeps() {
    for dir in PURE {
        let lints = read(&root().join("crates").join(dir).join("clippy.toml")).unwrap();
        for banned in ["Instant::now", "SystemTime::now", "thread::sleep", "net::TcpStream", "net::UdpSocket"]
        {
            assert!(lints.contains(banned), "crates/{dir}/clippy.toml no longer bans {banned}");
        }
    }
}

/// Folders of the crates that are more than tests.
fn shipped() -> impl Iterator<Item = String> {
    packages().unwrap().into_keys().filter(|dir| !["protocols/tests", "sim"].contains(&dir.as_str()))
}

/// Names that only a protocol, or a program that speaks it, has; and the folder of its crate.
const PROTOCOLS: &[(&str, &str)] = &[
    ("bwdelaytester", "protocols/bwdelaytester"),
    ("chargen", "protocols/discard"),
    ("ctstraffic", "protocols/ctstraffic"),
    ("iperf3", "protocols/iperf3"),
    ("ntttcp", "protocols/ntttcp"),
    ("rttcpip", "protocols/echo"),
    ("tcpmon", "protocols/udpmon"),
    ("ttcp", "protocols/ttcp"),
    ("udpmon", "protocols/udpmon"),
];

/// The binary's table, which names them all.
const TABLE: &str = "cli/src/protocols.rs";

/// `native`, `echo`, `discard` and `stamp` mean other things as well; the manifests tell who uses their crates.
#[test]
fn a_protocol_is_named_only_by_its_crate_and_the_table() {
    let mut found = Vec::new();
    for dir in shipped() {
        for source in production(&dir).into_iter().filter(|source| !source.path.ends_with(TABLE)) {
            for name in foreign_names(before_tests(&source.code), &source.literals, &dir) {
                found.push(format!("{}: {name}", source.path.display()));
            }
        }
    }
    assert!(found.is_empty(), "protocols named outside their crates and {TABLE}: {found:#?}");
}

#[test]
fn names_of_protocols_are_found_in_identifiers_and_literals() {
    let foreign_names = |source: &str, dir: &str| {
        let (code, literals) = code_and_strings(before_tests(source));
        foreign_names(&code, &literals, dir)
    };
    for guilty in ["fn of_ttcp() {}", "struct NtttcpView;", "const A: &str = \"iperf3\";", "mod udpmons;"] {
        assert_eq!(foreign_names(guilty, "report").len(), 1, "{guilty}");
    }
    let innocent =
        "// ttcp\nconst A: &str = \"as ttcp does\";\n#[cfg(test)]\nmod tests {\n    fn ttcp() {}\n}\n";
    assert_eq!(foreign_names(innocent, "report"), [""; 0]);
    assert_eq!(foreign_names("fn ntttcp_and_rttcpip() {}", "protocols/ntttcp"), ["rttcpip"]);
    assert_eq!(foreign_names("fn tcpmon() {}", "protocols/udpmon"), [""; 0]);
}

/// Protocols of other crates than the one in `dir` that code or literals of a source name.
fn foreign_names(code: &str, literals: &[String], dir: &str) -> Vec<&'static str> {
    // Few sources have a name that makes a look at each identifier worth it.
    let code = Some(code.to_lowercase()).filter(|code| PROTOCOLS.iter().any(|(name, _)| code.contains(name)));
    let code = code.unwrap_or_default();
    let identifiers = code.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned);
    let mut names = PROTOCOLS.to_vec();
    // `ntttcp` and `rttcpip` are not `ttcp`.
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let mut found = BTreeSet::new();
    for mut word in identifiers {
        for (name, of) in &names {
            if word.contains(name) {
                word = word.replace(name, "-");
                found.extend(Some(*name).filter(|_| *of != dir));
            }
        }
    }
    let equal = |name: &str| literals.iter().any(|literal| literal.eq_ignore_ascii_case(name));
    found.extend(names.iter().filter(|(name, of)| equal(name) && *of != dir).map(|(name, _)| *name));
    found.into_iter().collect()
}

/// What begins the tests within a source.
const TESTS: &str = "#[cfg(test)]\nmod tests {";

fn before_tests(source: &str) -> &str {
    source.split_once(TESTS).map_or(source, |(before, _)| before)
}

/// What a session proposes passes the judgement of both ends' counts there (`model::ending`).
#[test]
fn a_session_ends_in_its_driver_alone() {
    let reads = |path: &Path| {
        path.ends_with("original.rs") || path.components().any(|part| part.as_os_str() == "compat")
    };
    let mut found = BTreeSet::new();
    for dir in shipped().filter(|dir| dir.starts_with("protocols/")) {
        let ends = |source: &&Source| without_tests(&source.code).contains("Event::PhaseEnd");
        let all = production(&dir).into_iter().filter(ends).filter(|source| !reads(&source.path));
        found.extend(all.map(|source| source.path.strip_prefix(root()).unwrap().to_owned()));
    }
    assert_eq!(found, BTreeSet::from([PathBuf::from("crates/protocols/common/src/driver.rs")]));
}

/// A source with its code alone, and what stands in the plain strings before its tests.
struct Source {
    /// The folder of its crate, below `crates/`.
    dir: String,
    path: PathBuf,
    text: String,
    code: String,
    literals: Vec<String>,
}

impl Source {
    fn read(dir: &str, path: PathBuf) -> io::Result<Source> {
        let text = read(&path)?;
        let (before, tests) = text.split_at(before_tests(&text).len());
        let (code, literals) = code_and_strings(before);
        let code = code + &code_only(tests);
        Ok(Source { dir: dir.to_owned(), path, text, code, literals })
    }
}

/// The sources of all crates, read once for all tests.
fn all_sources() -> &'static [Source] {
    static ALL: OnceLock<Vec<Source>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        for dir in packages().unwrap().keys() {
            let paths = sources(&root().join("crates").join(dir)).unwrap();
            all.extend(paths.into_iter().map(|path| Source::read(dir, path).unwrap()));
        }
        all
    })
}

/// The pages whose promises name the tests that hold them.
const PROMISES: [&str; 2] = ["docs/security.md", "docs/fleet-reach.md"];

#[test]
fn promises_name_tests_that_exist() {
    let is_path = |text: &&str| {
        text.contains("::") && text.chars().all(|c| c.is_ascii_lowercase() || "_:0123456789".contains(c))
    };
    for page in PROMISES {
        let text = read(&root().join(page)).unwrap();
        let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(is_path).collect();
        assert!(!named.is_empty(), "{page} names no test");
        for path in named {
            let parts: Vec<&str> = path.split("::").filter(|part| *part != "tests").collect();
            let (name, module) = (parts[parts.len() - 1], parts[0]);
            let is_module = |path: &Path| {
                path.components().any(|part| {
                    part.as_os_str().to_str().is_some_and(|part| part.trim_end_matches(".rs") == module)
                })
            };
            let has = |source: &&Source| {
                is_module(&source.path) && (source.code.contains(&format!("fn {name}(")) || parts.len() == 1)
            };
            assert!(all_sources().iter().any(|source| has(&source)), "{page}: there is no test {path}");
        }
    }
}

/// Most lines of production code of a crate, as `bench/house` counts them, and most fields of a struct that needs no reason.
const MOST_LINES: usize = 10_000;
const MOST_FIELDS: usize = 20;

#[test]
fn no_crate_is_too_large() {
    for dir in shipped() {
        let lines = production(&dir).into_iter().map(|source| lines_of_code(&without_tests(&source.code)));
        let lines: usize = lines.sum();
        assert!(
            lines <= MOST_LINES,
            "crates/{dir} has {lines} lines of production code: split or shorten it"
        );
    }
}

#[test]
fn a_wide_struct_says_why() {
    let mut found = Vec::new();
    for dir in shipped() {
        for Source { path, text, .. } in production(&dir) {
            let source = without_tests(text);
            found.extend(wide_structs(&source).map(|name| format!("{}: {name}", path.display())));
        }
    }
    assert!(
        found.is_empty(),
        "structs of more than {MOST_FIELDS} fields without a comment that begins with 'Wide:': {found:#?}"
    );
}

#[test]
fn lines_and_fields_are_counted() {
    let fields: String = (0..21).map(|n| format!("    /// A: b.\n    pub(crate) f{n}: u8,\n")).collect();
    let wide = |doc: &str| format!("{doc}#[derive(Debug)]\npub(super) struct Wide {{\n{fields}}}\n");
    assert_eq!(wide_structs(&wide("/// All of it.\n")).collect::<Vec<_>>(), ["Wide"]);
    assert_eq!(wide_structs(&wide("/// All of it.\n/// Wide: an option each.\n")).count(), 0);
    assert_eq!(lines_of_code(&code_only("//! A\n\nfn f() {\n    // why\n    g(\"\n\");\n}\n")), 4);
}

/// The sources of a crate, without files that hold only tests: `tests.rs`, and modules declared behind `#[cfg(test)]`.
fn production(dir: &str) -> Vec<&'static Source> {
    let folder = root().join("crates").join(dir).join("src");
    let mut found: Vec<_> = all_sources().iter().filter(|source| source.path.starts_with(&folder)).collect();
    let mut tests = BTreeSet::new();
    for Source { path, text, .. } in &found {
        if path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "conformance") {
            tests.insert(path.clone());
        }
        for module in text.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| rest.split_once(';')) {
            let file = format!("{}.rs", module.0);
            tests.insert(path.with_extension("").join(&file));
            tests.insert(path.with_file_name(file));
        }
    }
    found.retain(|source| !tests.contains(&source.path));
    found
}

/// A source without its modules of tests.
fn without_tests(source: &str) -> String {
    let mut kept = String::new();
    let mut rest = source;
    while let Some((before, behind)) = rest.split_once("#[cfg(test)]\nmod ") {
        kept.push_str(before);
        // A module in a file of its own ends with its line.
        let inline = behind.lines().next().is_some_and(|line| line.ends_with('{'));
        let end = if inline { "\n}\n" } else { ";\n" };
        rest = behind.split_once(end).map_or("", |(_, rest)| rest);
    }
    kept + rest
}

/// Lines that are not empty.
fn lines_of_code(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

/// The structs with too many fields whose doc comment gives no reason.
fn wide_structs(source: &str) -> impl Iterator<Item = String> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    let begins = |line: &str| line.ends_with('{') && line.contains("struct ");
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| begins(line)) {
        let words: Vec<&str> = line.split([' ', '<']).collect();
        let Some(place) = words.iter().position(|word| *word == "struct") else { continue };
        let is_field = |line: &&&str| {
            let (name, rest) =
                line.strip_prefix("    ").and_then(|line| line.split_once(": ")).unwrap_or_default();
            let name = name.rsplit(' ').next().unwrap_or_default();
            !rest.is_empty()
                && name.chars().all(|c| c.is_alphanumeric() || c == '_')
                && !line.trim().starts_with("//")
        };
        let fields = lines[at..].iter().take_while(|line| **line != "}").filter(is_field).count();
        let doc =
            lines[..at].iter().rev().take_while(|line| line.starts_with("//") || line.starts_with("#["));
        if fields > MOST_FIELDS && !doc.into_iter().any(|line| line.contains("// Wide: ")) {
            found.push(words.get(place + 1).copied().unwrap_or_default().to_owned());
        }
    }
    found.into_iter()
}

#[test]
fn every_way_to_name_a_dependency_is_seen() {
    let manifest = r#"
        [package]
        name = "x"
        [dependencies]
        metrics.workspace = true   # a comment
        transport = { path = "../transport" }
        other = { package = "echo", version = "1" }
        "io" = "1"
        remote = { path = "../engine/" }
        [target.'cfg(unix)'.dev-dependencies]
        report.workspace = true
        [build-dependencies.model]
        workspace = true
        [target.'cfg(windows)'.dependencies.renamed]
        package = "compat"
        [features]
        cli = []
        [lints]
        workspace = true
    "#;
    let got: Vec<String> = dependencies(manifest).into_iter().collect();
    let want = "compat echo engine io metrics model other remote renamed report transport";
    assert_eq!(got.join(" "), want);
}

#[test]
fn only_code_counts_as_unsafe() {
    let innocent = r##"
        #![forbid(unsafe_code)] // unsafe
        /* unsafe /* unsafe */ unsafe */
        const A: &str = "unsafe \" unsafe";
        const B: &str = r#"unsafe " unsafe"#;
        const C: [char; 2] = ['"', '\''];
        fn f<'unsafe_looking>(r#type: &'unsafe_looking [u8]) {}
    "##;
    assert_eq!(unsafe_in(&code_only(innocent)).count(), 0);
    for guilty in [
        "fn f() { unsafe { g() } }",
        "const Q: char = '\"'; unsafe fn f() {}",
        "unsafe impl Send for X {}",
        "#[allow(dead_code, unsafe_code)]",
        "#![expect(unsafe_code, reason = \"x\")]",
    ] {
        assert_eq!(unsafe_in(&code_only(guilty)).count(), 1, "{guilty}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map_err(|e| io::Error::new(e.kind(), format!("reading {}: {e}", path.display())))
}

fn allowed(dir: &str) -> Option<&'static [&'static str]> {
    MAY_USE.iter().find(|(name, _)| *name == row(dir)).map(|(_, may_use)| *may_use)
}

/// The name of the row for the crate in `crates/<dir>`.
fn row(dir: &str) -> &str {
    let own = MAY_USE.iter().any(|(name, _)| *name == dir);
    if dir.starts_with("protocols/") && !own { EACH_PROTOCOL } else { dir }
}

/// The folders below `crates/` and the names of the packages in them.
fn packages() -> io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for within in ["", "protocols/"] {
        for entry in fs::read_dir(root().join("crates").join(within))? {
            let folder = entry?.path();
            let manifest = folder.join("Cargo.toml");
            if manifest.is_file() {
                let text = read(&manifest)?;
                let package =
                    text.lines().find_map(|line| line.trim().strip_prefix("name = ")).unwrap_or_default();
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                found.insert(format!("{within}{name}"), package.trim_matches('"').to_owned());
            }
        }
    }
    Ok(found)
}

/// Every name under which a manifest asks for a crate: its key, its `package`, and the folder of its `path`.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines().map(|line| line.split(" #").next().unwrap_or_default().trim()) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let (table, key) = match section.rsplit_once('.') {
                Some((table, key)) if table.ends_with("dependencies") => (table, Some(key)),
                _ => (section, None),
            };
            inside = table.ends_with("dependencies");
            found.extend(key.map(unquoted));
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| inside) else { continue };
        let attributes =
            ["package", "path", "version", "workspace", "features", "optional", "default-features"];
        let name = unquoted(key.split('.').next().unwrap_or_default());
        if !attributes.contains(&name.as_str()) {
            found.insert(name);
        }
        for attribute in ["package", "path"] {
            found.extend(attribute_value(line, value, attribute));
        }
    }
    found
}

/// The value of `package` or the last folder of `path`, in an inline table or on a line of its own.
fn attribute_value(line: &str, value: &str, attribute: &str) -> Option<String> {
    let text = if line.starts_with(attribute) { line } else { value };
    let (before, after) = text.split_once(attribute)?;
    let alone = before.is_empty() || before.ends_with([' ', '{', ',']);
    let quoted = after.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
    let value = quoted.split('"').next()?.trim_end_matches('/');
    alone.then(|| value.rsplit('/').next().unwrap_or(value).to_owned())
}

fn unquoted(key: &str) -> String {
    key.trim().trim_matches(['"', '\'']).to_owned()
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The lines with the keyword, or with an attribute that lifts the lint.
fn unsafe_in(code: &str) -> impl Iterator<Item = usize> + '_ {
    code.lines()
        .enumerate()
        .filter(|(_, line)| line.contains("unsafe"))
        .filter(|(_, line)| {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let lifts = words.iter().any(|w| ["allow", "expect", "warn"].contains(w))
                && words.contains(&"unsafe_code");
            words.contains(&"unsafe") || lifts
        })
        .map(|(at, _)| at + 1)
}

/// The source with comments, strings and character literals blanked out; its lines keep their numbers.
fn code_only(source: &str) -> String {
    code_and_strings(source).0
}

/// The same, and what stands in its plain strings.
fn code_and_strings(source: &str) -> (String, Vec<String>) {
    let (mut out, mut strings) = (String::with_capacity(source.len()), Vec::new());
    // A comment or a literal begins with one of these.
    let begins = |byte: u8| matches!(byte, b'/' | b'"' | b'\'' | b'r');
    let mut rest = source;
    loop {
        let plain = rest.bytes().position(begins).unwrap_or(rest.len());
        let (taken, left) = rest.split_at(plain);
        out.push_str(taken);
        rest = left;
        let Some(first) = rest.chars().next() else { break };
        let literal = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment_length(rest),
            '"' => string_length(rest),
            '\'' => char_length(rest),
            'r' if !out.ends_with(|c: char| c.is_alphanumeric() || c == '_') || ends_with_prefix(&out) => {
                raw_string_length(rest)
            }
            _ => 0,
        };
        let (taken, left) = rest.split_at(literal.max(first.len_utf8()));
        if literal > 0 {
            strings.extend(taken.strip_prefix('"').map(|text| text.trim_end_matches('"').to_owned()));
            out.push(' ');
            out.extend(taken.matches('\n'));
        } else {
            out.push_str(taken);
        }
        rest = left;
    }
    (out, strings)
}

/// Whether what came before `r` is the `b` or `c` of a raw byte or C string.
fn ends_with_prefix(before: &str) -> bool {
    let mut back = before.chars().rev();
    matches!(back.next(), Some('b' | 'c')) && !back.next().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn comment_length(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

fn string_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// 0 for a lifetime.
fn char_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            rest[from..].find('\'').map_or(rest.len(), |end| from + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

/// 0 for anything but a raw string.
fn raw_string_length(rest: &str) -> usize {
    let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
    if !rest[1 + hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let from = 2 + hashes;
    rest[from..].find(&end).map_or(rest.len(), |at| from + at + end.len())
}
