//! The documents tell the truth: commands that they show can be read, links lead somewhere, every
//! caveat is explained.

use crate::command::Cli;
use crate::originals;
use clap::Parser as _;
use clap::error::ErrorKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All documents, with their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let root = root();
    let mut paths: Vec<PathBuf> = [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "bench/README.md",
        "contrib/README.md",
    ]
    .map(|name| root.join(name))
    .into();
    for folder in ["docs", "docs/methods", "docs/protocols"] {
        let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(entries.filter(|path| path.extension().is_some_and(|kind| kind == "md")));
    }
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The commands that a document shows: lines of `console` blocks behind a prompt, all lines of `sh`
/// blocks.
fn shown(text: &str) -> Vec<String> {
    let (mut block, mut commands) = ("", Vec::<String>::new());
    let mut goes_on = false;
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            block = if block.is_empty() && !kind.is_empty() { kind } else { "" };
            goes_on = false;
            continue;
        }
        let typed = match block {
            _ if goes_on => Some(line.trim_start()),
            "console" => line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")),
            "sh" => Some(line),
            _ => None,
        };
        let Some(typed) = typed else { continue };
        let (bare, more) = typed.strip_suffix('\\').map_or((typed, false), |bare| (bare, true));
        match commands.last_mut().filter(|_| goes_on) {
            Some(command) => command.push_str(bare),
            None => commands.push(bare.to_owned()),
        }
        goes_on = more;
    }
    commands
}

/// The words of each command of a line, as a shell would split them; what is redirected is left
/// out.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words) = (Vec::new(), Vec::new());
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut redirected = false;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '|' | '&' | ';' | '>' | '<') => {
                if let Some(word) = word.take()
                    && !std::mem::take(&mut redirected)
                {
                    words.push(word);
                }
                redirected |= matches!(letter, '>' | '<');
                if matches!(letter, '|' | '&' | ';') && !words.is_empty() {
                    all.push(std::mem::take(&mut words));
                }
            }
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word.filter(|_| !redirected));
    all.push(words);
    all
}

/// Why this program could not read such a command; nothing when it is another program's.
fn refused(words: &[String]) -> Option<String> {
    let called = words.first()?;
    if Path::new(called).file_name().is_none_or(|name| name != "netcaliper")
        || originals::requested(words).is_some()
    {
        return None;
    }
    if let Err(error) = Cli::try_parse_from(words)
        && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
    {
        return Some(error.to_string());
    }
    let verb = words.get(1).map_or("", String::as_str);
    let behind: Vec<String> = words.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    match verb {
        "monitor" => refused(&[vec![called.clone()], behind].concat()),
        "lab" => {
            let told =
                words.iter().filter(|word| word.starts_with("netcaliper ")).flat_map(|line| commands(line));
            std::iter::once(behind).chain(told).find_map(|words| refused(&words))
        }
        _ => None,
    }
}

#[test]
fn commands_that_are_shown_can_be_read() {
    let (mut bad, mut read) = (Vec::new(), 0);
    for (path, text) in documents() {
        for line in shown(&text) {
            for words in commands(&line) {
                read += usize::from(words.first().is_some_and(|word| word.ends_with("netcaliper")));
                bad.extend(refused(&words).map(|why| format!("{}: {line}\n{why}", path.display())));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(read > 50, "only {read} commands were found");
}

/// What a document says in back-quotes, outside of blocks.
fn quoted(text: &str) -> Vec<&str> {
    let outside = text.split("```").step_by(2);
    outside.flat_map(|text| text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))).collect()
}

/// Programs whose options stand in the documents, too.
const OF_OTHERS: [&str; 4] = ["cargo ", "contrib/cross ", "systemctl ", "twine "];

#[test]
fn options_that_are_named_exist() {
    let mut whole = Cli::whole();
    whole.build();
    let mut known: BTreeSet<&str> = BTreeSet::from(["help", "version"]);
    let nested = whole.get_subcommands().flat_map(|verb| verb.get_subcommands());
    for verb in whole.get_subcommands().chain(nested) {
        for option in verb.get_arguments() {
            known.extend(option.get_long());
            known.extend(option.get_all_aliases().unwrap_or_default());
        }
    }
    let mut bad = Vec::new();
    for (path, text) in documents() {
        let ours = !path.to_string_lossy().contains("protocols");
        let own = path.parent().is_some_and(|folder| folder.ends_with("docs") || folder.ends_with("methods"));
        for said in quoted(&text) {
            let words: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
            if said.starts_with("netcaliper ") && !said.contains('…') && !said.contains("VERB") {
                let error =
                    Cli::try_parse_from(&words).err().filter(|_| originals::requested(&words).is_none());
                let wrong = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
                bad.extend(
                    error
                        .filter(|e| wrong.contains(&e.kind()))
                        .map(|_| format!("{}: {said}", path.display())),
                );
            } else if ours && own && !OF_OTHERS.iter().any(|program| said.contains(program)) {
                let options = words.iter().filter_map(|word| word.strip_prefix("--"));
                let names = options.map(|word| word.split(['=', '[', '.', ',']).next().unwrap_or_default());
                let unknown = names.filter(|name| !name.is_empty() && !known.contains(name));
                bad.extend(unknown.map(|name| format!("{}: --{name} in `{said}`", path.display())));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn lines_are_split_as_shells_do() {
    let split = |line: &str| commands(line).iter().map(|words| words.join("/")).collect::<Vec<_>>();
    assert_eq!(split("a 'b c' > d  # e"), ["a/b c"]);
    assert_eq!(split("a b | c && d \"e|f\""), ["a/b", "c", "d/e|f"]);
    assert_eq!(shown("```console\n$ a \\\n  b\nc\n# d\n```\n$ e"), ["a b", "d"]);
    let words = |line: &str| commands(line).remove(0);
    assert!(refused(&words("netcaliper tcp HOST --speed 3")).is_some());
    assert!(refused(&words("netcaliper monitor -- tcp")).is_some());
    assert!(refused(&words("netcaliper lab --server 'netcaliper serv' -- true")).is_some());
    assert!(refused(&words("iperf3 --speed 3")).is_none());
}

/// As a heading is linked to: its letters and digits, small, and hyphens for spaces.
fn anchor(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = plain.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut bad = Vec::new();
    for (path, text) in documents() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let (file, place) =
                link.split_once('#').map_or((link, None), |(file, place)| (file, Some(place)));
            let target = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            let found = match place {
                None => target.exists(),
                Some(place) => fs::read_to_string(&target).is_ok_and(|text| {
                    text.lines().any(|line| line.starts_with('#') && anchor(line) == place)
                }),
            };
            if !found {
                bad.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn every_caveat_is_explained_once_and_with_its_level() {
    let text = fs::read_to_string(root().join("docs/measuring.md")).unwrap();
    let table = text.split("## Every caveat").nth(1).unwrap().split("\n## ").next().unwrap();
    let cells = |line: &str| -> Option<(String, String)> {
        let (code, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((code.to_owned(), rest.split(' ').next()?.to_owned()))
    };
    let rows: Vec<(String, String)> = table.lines().filter_map(cells).collect();
    let levels = model::caveat_levels().map(|(code, level)| (code.to_owned(), level.name().to_owned()));
    let levels: BTreeSet<(String, String)> = levels.collect();
    assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), levels);
    assert_eq!(rows.len(), levels.len(), "a caveat is explained twice");
}
