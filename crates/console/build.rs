//! Compresses the assets and writes the table that `src/assets.rs` includes. Needs nothing but Rust.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=assets");
    let directory = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("assets");
    let target = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let mut names = Vec::new();
    collect(&directory, "", &mut names)?;
    names.sort();
    let mut version = Sha256::new();
    let mut rows = String::new();
    for (number, name) in names.iter().enumerate() {
        let bytes = fs::read(directory.join(name))?;
        version.update(name.as_bytes());
        version.update(&bytes);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&bytes)?;
        let packed = target.join(format!("asset-{number}.gz"));
        fs::write(&packed, encoder.finish()?)?;
        let length = bytes.len();
        let _ = writeln!(
            rows,
            "    Asset {{ name: {name:?}, length: {length}, packed: include_bytes!({packed:?}) }},"
        );
    }
    let version: String = version.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let table = format!(
        "/// Changes with every byte of the assets.\npub(crate) const VERSION: &str = {version:?};\n\n\
         pub(crate) const ASSETS: &[Asset] = &[\n{rows}];\n"
    );
    fs::write(target.join("assets.rs"), table)
}

fn collect(root: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(prefix))? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(root, &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}
