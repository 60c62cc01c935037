//! Files that servers protect their connections with: authorities, keys and logins, made by OpenSSL and
//! keytool in one directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Makes `NAME.pem`, an authority, and its key.
pub(crate) fn make_authority(home: &Path, name: &str, subject: &str) -> Result<()> {
    run(
        home,
        &format!(
            "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -keyout {name}.key -out {name}.pem -subj {subject} \
             -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign"
        ),
    )
}

/// The addresses that servers here have.
const ADDRESSES: std::ops::RangeInclusive<u8> = 1..=9;

/// Makes `NAME.pem`, a key and a certificate of an authority, for 127.0.0.1 to 127.0.0.9.
pub(crate) fn make_server(home: &Path, name: &str, authority: &str) -> Result<()> {
    let names: Vec<String> = ADDRESSES.map(|last| format!("IP:127.0.0.{last}")).collect();
    let extensions = format!("subjectAltName={}\nextendedKeyUsage=serverAuth,clientAuth\n", names.join(","));
    fs::write(home.join("server.ext"), extensions)?;
    run(
        home,
        &format!(
            "openssl req -new -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ),
    )?;
    run(
        home,
        &format!(
            "openssl x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 30 \
             -out {name}.crt -extfile server.ext"
        ),
    )?;
    let key = fs::read_to_string(home.join(format!("{name}.key")))?;
    let certificate = fs::read_to_string(home.join(format!("{name}.crt")))?;
    Ok(fs::write(home.join(format!("{name}.pem")), key + &certificate)?)
}

/// Makes `NAME.p12` and `AUTHORITY.p12` with the password `secret`.
pub(crate) fn make_pkcs12(home: &Path, name: &str, authority: &str) -> Result<()> {
    run(
        home,
        &format!(
            "openssl pkcs12 -export -name server -inkey {name}.key -in {name}.crt -certfile {authority}.pem \
             -out {name}.p12 -passout pass:secret"
        ),
    )?;
    run(
        home,
        &format!(
            "keytool -importcert -noprompt -alias authority -file {authority}.pem -keystore {authority}.p12 \
             -storetype PKCS12 -storepass secret"
        ),
    )
}

/// Makes `jaas.conf` with one user, whom all servers know and are.
pub(crate) fn make_logins(home: &Path) -> Result<()> {
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let text = format!(
        "QuorumServer {{ {module} user_member=\"between servers\"; }};\n\
         QuorumLearner {{ {module} username=\"member\" password=\"between servers\"; }};\n"
    );
    Ok(fs::write(home.join("jaas.conf"), text)?)
}

/// Words of a command line for `jaas.conf`: Apache reads the login only from there.
pub(crate) fn login_words(home: &Path) -> Vec<String> {
    vec![
        format!("-Djava.security.auth.login.config={}", home.join("jaas.conf").display()),
        // Releases from 3.9.4 refuse DIGEST-MD5 otherwise.
        "-Dzookeeper.fips-mode=false".to_owned(),
    ]
}

/// Replaces a file as a whole, as tools that renew certificates do.
pub(crate) fn replace(file: &Path, text: &str) -> Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, text)?;
    Ok(fs::rename(&new, file)?)
}

fn run(home: &Path, command: &str) -> Result<()> {
    let mut words = command.split_ascii_whitespace();
    let program = words.next().context("an empty command")?;
    let output = Command::new(program).args(words).current_dir(home).output();
    let output = output.with_context(|| format!("run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command}: {said}");
    Ok(())
}
