//! What a Java server really holds: its heap after a full collection, asked of the machine itself by jcmd.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Bytes of the heap that are in use after a collection.
pub(crate) fn used_after_collection(process: u32) -> Result<u64> {
    jcmd(process, "GC.run")?;
    let answer = jcmd(process, "GC.heap_info")?;
    used(&answer).with_context(|| format!("no used heap in the answer of jcmd: {answer}"))
}

fn jcmd(process: u32, command: &str) -> Result<String> {
    let output = Command::new("jcmd").arg(process.to_string()).arg(command).output().context("run jcmd")?;
    ensure!(output.status.success(), "jcmd {command}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// From a line such as ` garbage-first heap   total 24576K, used 3014K [0x…`. A collector with generations
/// prints one line for each; metadata, which stands behind, is no part of the heap.
fn used(answer: &str) -> Option<u64> {
    let mut kib = None;
    for line in answer.lines().take_while(|line| !line.trim_start().starts_with("Metaspace")) {
        let Some((_, rest)) = line.split_once(" used ") else { continue };
        // The parts of a generation say how full they are as a share, not as a size.
        let Some(size) = rest.split_once('K').and_then(|(size, _)| size.trim().parse::<u64>().ok()) else {
            continue;
        };
        kib = Some(kib.unwrap_or(0) + size);
    }
    kib.map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_heap_is_found() {
        let answer = "4711:\n garbage-first heap   total 24576K, used 3014K [0x00, 0x10)\n  region size \
                      1024K, 3 young (3072K), 0 survivors (0K)\n Metaspace       used 6000K, committed 6200K\n";
        assert_eq!(used(answer), Some(3014 * 1024));
        let serial = " def new generation   total 4928K, used 627K [0x0,0x1)\n  eden space 4416K,  14% used \
                      [0x0,0x1)\n tenured generation   total 10944K, used 2100K [0x1)\n";
        assert_eq!(used(serial), Some((627 + 2100) * 1024));
        assert_eq!(used("nothing"), None);
    }
}
