//! An authority and certificates of a server and of clients, made by OpenSSL in a directory of their own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Names and subjects of the clients. The last but one has no extensions: an X.509 v1 certificate.
const CLIENTS: [(&str, &str); 5] = [
    ("one", "/C=DE/O=Zebu Test/CN=client one"),
    ("comma", "/O=Zebu, Inc./OU=a+OU=b/CN=client=two"),
    ("mail", "/CN=mail/emailAddress=a@example.com"),
    ("old", "/CN=version 1"),
    ("root", "/O=Zebu Test/CN=root"),
];

/// The client that the servers take for the super user of x509.
pub(super) const SUPER_SUBJECT: &str = "CN=root,O=Zebu Test";

/// The files.
pub(super) struct Certificates {
    home: TempDir,
}

impl Certificates {
    pub(super) fn make() -> Result<Certificates> {
        let made = Certificates { home: tempfile::Builder::new().prefix("zebu-access").tempdir()? };
        made.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "30",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-subj",
            "/CN=authority",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
        ])?;
        made.issue(
            "server",
            "/CN=server",
            Some("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n"),
        )?;
        for (name, subject) in CLIENTS {
            made.issue(name, subject, (name != "old").then_some("extendedKeyUsage=clientAuth\n"))?;
        }
        Ok(made)
    }

    /// A file with key and certificate, or `ca.pem`.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn issue(&self, name: &str, subject: &str, extensions: Option<&str>) -> Result<()> {
        let file = |ending: &str| format!("{name}.{ending}");
        let (key, request, certificate) = (file("key"), file("csr"), file("crt"));
        self.openssl(&[
            "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", &key, "-out", &request, "-subj",
            subject,
        ])?;
        let mut sign = vec![
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "30",
            "-out",
            &certificate,
        ];
        if let Some(text) = extensions {
            fs::write(self.path("extensions"), text)?;
            sign.extend(["-extfile", "extensions"]);
        }
        self.openssl(&sign)?;
        let both = fs::read_to_string(self.path(&key))? + &fs::read_to_string(self.path(&certificate))?;
        Ok(fs::write(self.path(&file("pem")), both)?)
    }

    fn openssl(&self, words: &[&str]) -> Result<()> {
        let output = Command::new("openssl").args(words).current_dir(self.home.path()).output();
        let output = output.context("run openssl")?;
        ensure!(
            output.status.success(),
            "openssl {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}
