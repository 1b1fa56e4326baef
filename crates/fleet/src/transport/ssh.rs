//! A remote shell for each host, which runs an agent whose standard input and output are the
//! connection.
//!
//! Nothing has to be installed at the hosts: the program can be copied there first, and its file is
//! gone as soon as the agent has started. The words of a command are free of characters that a
//! shell gives a meaning, so that it makes no difference whether the remote shell passes them to a
//! shell (ssh does) or runs them (`ip netns exec` does).

use super::lines::{Connection, Dial, Named, Undialled};
use crate::message::bounded;
use crate::threads::{lock, read_stderr, wait};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Longest time for a remote shell to end after its agent.
const LINGERS: Duration = Duration::from_secs(2);

/// Start of agents.
#[derive(Clone, Debug)]
pub struct RemoteShell {
    /// The command line of the remote shell: words separated by spaces, in which `{}` is the host's
    /// name and `{address}` its address; without either its address follows as the last word.
    pub template: String,
    /// The program at the hosts: a path, or a name in their search path.
    pub program: String,
    /// The file to copy to the hosts first, which is then run instead.
    pub copied: Option<PathBuf>,
    /// Folder of a copy until it has started.
    pub folder: String,
    /// More arguments of the agent.
    pub arguments: Vec<String>,
    /// SHA-256 of the file to copy; computed when first wanted.
    pub checksum: OnceLock<Result<String, String>>,
}

impl RemoteShell {
    /// The words of a command at a host.
    ///
    /// # Errors
    /// One sentence, where a word could mean something to a shell, or the host's name be an option.
    fn command(&self, host: &Named, words: &[&str]) -> Result<Command, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,@%+".contains(c);
        if let Some(word) = words.iter().find(|word| word.is_empty() || !word.chars().all(plain)) {
            return Err(format!("'{}' cannot be passed through a remote shell", bounded(word)));
        }
        let named = |c: char| c.is_ascii_alphanumeric() || "._-:@%[]".contains(c);
        let [name, address] = [&host.name, &host.address];
        for host in [name, address] {
            if host.is_empty() || host.starts_with('-') || !host.chars().all(named) {
                return Err(format!("'{}' is no name of a host", bounded(host)));
            }
        }
        if self.template.trim().is_empty() {
            return Err("the remote shell is empty: ssh is the usual one".to_owned());
        }
        let mut all: Vec<String> = self
            .template
            .split_whitespace()
            .map(|word| word.replace("{}", name).replace("{address}", address))
            .collect();
        if !["{}", "{address}"].iter().any(|place| self.template.contains(place)) {
            all.push(address.clone());
        }
        let (first, rest) = all.split_first().ok_or("the remote shell has no words")?;
        let mut command = Command::new(first);
        command.args(rest).args(words);
        // Ctrl-C is for the controller, which then ends the agents in good order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(command)
    }

    /// Runs a command at a host to its end, with `input`.
    fn finish(&self, host: &Named, words: &[&str], input: Option<File>) -> Result<String, String> {
        let mut command = self.command(host, words)?;
        command
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = command.output().map_err(|e| format!("cannot run '{}': {e}", self.template))?;
        if !output.status.success() {
            let said = bounded(String::from_utf8_lossy(&output.stderr).trim());
            return Err(format!("'{}' failed at {}: {said}", words.join(" "), host.name));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Copies the program to a host; where it lies there.
    fn copy(&self, host: &Named, file: &PathBuf) -> Result<String, String> {
        let checksum = self.checksum.get_or_init(|| {
            checksum(file).map_err(|e| format!("cannot read the program to copy, {}: {e}", file.display()))
        });
        let checksum = checksum.as_ref().map_err(String::clone)?.as_str();
        let mut name = [0; 16];
        ::io::clock::random(&mut name).map_err(|e| e.to_string())?;
        let name = hex(&name);
        let path = format!("{}/netcaliper-{name}", self.folder.trim_end_matches('/'));
        let input = File::open(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let send = || {
            self.finish(host, &["dd", &format!("of={path}"), "bs=65536"], Some(input))?;
            let sum = self.finish(host, &["sha256sum", &path], None)?;
            if sum.split_whitespace().next() != Some(checksum) {
                let name = &host.name;
                return Err(format!("the copy at {name} differs from the sent one by its checksum"));
            }
            self.finish(host, &["chmod", "700", &path], None)
        };
        let copied = send();
        if copied.is_err() {
            let _ = self.finish(host, &["rm", "-f", &path], None);
        }
        copied.map(|_| path)
    }
}

impl Dial for RemoteShell {
    fn dial(&self, host: &Named) -> Result<Connection, Undialled> {
        let absent = |may_retry| move |why: String| Undialled { why, may_retry };
        let copied =
            self.copied.as_ref().map(|file| self.copy(host, file)).transpose().map_err(absent(true))?;
        let mut words = vec![copied.as_deref().unwrap_or(&self.program), "agent", "--stdio"];
        if copied.is_some() {
            words.push("--remove-program");
        }
        words.extend(self.arguments.iter().map(String::as_str));
        let mut command = self.command(host, &words).map_err(absent(false))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let cannot = |e: io::Error| format!("cannot run '{}': {e}", self.template);
        let mut process = command.spawn().map_err(cannot).map_err(absent(false))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| absent(false)("a process has no pipes".to_owned()))?;
        let said = read_stderr(process.stderr.take());
        let process = Arc::new(Mutex::new(process));
        let ended = Arc::clone(&process);
        Ok(Connection {
            reader: Box::new(stdout),
            writer: Box::new(stdin),
            // One that has ended by itself is over anyway.
            end: Box::new(move || drop(lock(&process).kill())),
            ended: Box::new(move || {
                let code = wait(&ended, LINGERS);
                let said = said.map(|said| said.join().unwrap_or_default()).unwrap_or_default();
                let how = code.map_or("was killed".to_owned(), |code| format!("ended with {code}"));
                if said.is_empty() { how } else { format!("{how}: {said}") }
            }),
        })
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
fn checksum(file: &PathBuf) -> io::Result<String> {
    use sha2::{Digest as _, Sha256};
    let mut file = File::open(file)?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&piece[..n]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(template: &str) -> RemoteShell {
        RemoteShell {
            template: template.to_owned(),
            program: "netcaliper".to_owned(),
            copied: None,
            folder: "/tmp".to_owned(),
            arguments: Vec::new(),
            checksum: OnceLock::new(),
        }
    }

    fn words(template: &str, host: &str, words: &[&str]) -> Result<Vec<String>, String> {
        let host = Named { name: host.to_owned(), address: format!("{host}.example") };
        let command = shell(template).command(&host, words)?;
        let program = std::iter::once(command.get_program());
        Ok(program.chain(command.get_args()).map(|word| word.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn the_host_takes_its_place() {
        assert_eq!(words("ssh -q", "a", &["true"]).unwrap(), ["ssh", "-q", "a.example", "true"]);
        assert_eq!(words("ip netns exec {}", "a", &["true"]).unwrap(), ["ip", "netns", "exec", "a", "true"]);
        assert_eq!(words("ssh root@{address}", "a", &["true"]).unwrap(), ["ssh", "root@a.example", "true"]);
        assert_eq!(
            words("docker exec -i x-{}", "a", &["true"]).unwrap(),
            ["docker", "exec", "-i", "x-a", "true"]
        );
    }

    #[test]
    fn no_word_means_anything_to_a_shell() {
        for bad in ["a b", "$(x)", "a;b", "a'b", "", "*", "~", "a\nb"] {
            assert!(words("ssh", "a", &[bad]).is_err(), "{bad}");
        }
        for bad in ["-oProxyCommand=x", "a b", "", "$x", "a;b"] {
            assert!(words("ssh", bad, &["true"]).is_err(), "{bad}");
        }
        assert!(words(" ", "a", &["true"]).is_err(), "the host is no command");
    }
}
