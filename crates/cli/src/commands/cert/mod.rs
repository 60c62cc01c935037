//! `zebu cert`: a test CA, and certificates of servers and clients below it. It never overwrites a file. For
//! production, an organisation's own CA signs the certificates.

mod authority;
mod files;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use zebu_security::x509_id::x509_id;

use crate::console::{print_error, print_line};
pub(crate) use authority::{Authority, CertError, LeafKind, LeafRequest};
pub(crate) use files::write_secret;

/// Make a test CA and certificates of servers and clients
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu cert ca                                   a CA in ./zebu-certs
  zebu cert server zk1.example.com 10.0.0.1      a server with these names and addresses
  zebu cert client shop                          a client whose id is x509:CN=shop
  zebu cert server --directory /etc/zebu/certs   localhost; the CA is made if there is none")]
pub(crate) struct Cert {
    #[command(subcommand)]
    kind: CertKind,
}

#[derive(Debug, Subcommand)]
enum CertKind {
    Ca(CaArguments),
    Server(ServerArguments),
    Client(ClientArguments),
}

/// Make a CA: the certificate ca.pem and its key ca.key
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu cert ca
  zebu cert ca --directory /etc/zebu/certs --name 'Shop test CA' --days 365")]
struct CaArguments {
    #[command(flatten)]
    place: Place,
    /// The common name of the CA
    #[arg(long, default_value = "Zebu test CA")]
    name: String,
    /// Days until it expires
    #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,
}

/// Make the certificate of a server: one PEM file with key, certificate and CA
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu cert server                               localhost, 127.0.0.1 and ::1, in zebu-certs/server.pem
  zebu cert server zk1.example.com 10.0.0.1      the first name is the common name too
  zebu cert server zk1 zk2 zk3 --file ensemble   one certificate for three servers: zebu-certs/ensemble.pem

The certificate is good for both sides, so that it serves clients and other servers (ssl.quorum) alike.")]
struct ServerArguments {
    /// Host names and addresses that clients connect to
    #[arg(value_name = "HOST", default_values = ["localhost", "127.0.0.1", "::1"])]
    hosts: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// The name of the file, without .pem
    #[arg(long, default_value = "server", value_name = "NAME")]
    file: String,
    /// Days until it expires
    #[arg(long, default_value_t = 825, value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,
}

/// Make the certificate of a client: one PEM file with key, certificate and CA
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu cert client shop                          zebu-certs/shop.pem, id x509:CN=shop
  zebu cert client 'Jane Doe' --file jane --days 30")]
struct ClientArguments {
    /// The common name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    place: Place,
    /// The name of the file, without .pem; the common name if it is not given
    #[arg(long, value_name = "NAME")]
    file: Option<String>,
    /// Days until it expires
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,
}

#[derive(Debug, Args)]
struct Place {
    /// Where the files go, and where the CA is
    #[arg(long, value_name = "PATH", default_value = "zebu-certs")]
    directory: PathBuf,
}

impl Cert {
    /// Makes the files and says how they are used.
    pub(crate) fn run(self) -> ExitCode {
        let made = match &self.kind {
            CertKind::Ca(arguments) => make_ca(arguments),
            CertKind::Server(arguments) => make_server(arguments),
            CertKind::Client(arguments) => make_client(arguments),
        };
        match made {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                print_error(error.to_string());
                ExitCode::FAILURE
            }
        }
    }
}

fn make_ca(arguments: &CaArguments) -> Result<(), CertError> {
    let directory = &arguments.place.directory;
    Authority::create(directory, &arguments.name, arguments.days)?;
    report_ca(directory);
    Ok(())
}

fn report_ca(directory: &Path) {
    print_line(format!("wrote {}: trust it", directory.join(authority::CA_FILE).display()));
    print_line(format!("wrote {}: keep it secret", directory.join(authority::CA_KEY_FILE).display()));
}

/// The CA of the directory. A directory without one gets one.
fn open_or_create(directory: &Path) -> Result<Authority, CertError> {
    if let Some(authority) = Authority::open(directory)? {
        return Ok(authority);
    }
    let authority = Authority::create(directory, "Zebu test CA", 3650)?;
    report_ca(directory);
    Ok(authority)
}

fn make_server(arguments: &ServerArguments) -> Result<(), CertError> {
    let directory = &arguments.place.directory;
    let file = files::pem_path(directory, &arguments.file)?;
    let request = LeafRequest {
        name: arguments.hosts.first().cloned().unwrap_or_default(),
        kind: LeafKind::Server { hosts: arguments.hosts.clone() },
        days: arguments.days,
    };
    files::refuse_existing(&file)?;
    let leaf = open_or_create(directory)?.issue(&request)?;
    files::write_secret(&file, &leaf.pem)?;
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    print_line(format!("wrote {}: {}", file.display(), arguments.hosts.join(", ")));
    print_line(format!(
        "in zoo.cfg:\n  secureClientPort=2281\n  ssl.keyStore.location={}\n  ssl.trustStore.location={}",
        absolute(&file).display(),
        absolute(&directory.join(authority::CA_FILE)).display()
    ));
    Ok(())
}

fn make_client(arguments: &ClientArguments) -> Result<(), CertError> {
    let directory = &arguments.place.directory;
    let file = files::pem_path(directory, arguments.file.as_ref().unwrap_or(&arguments.name))?;
    let request = LeafRequest { name: arguments.name.clone(), kind: LeafKind::Client, days: arguments.days };
    files::refuse_existing(&file)?;
    let leaf = open_or_create(directory)?.issue(&request)?;
    files::write_secret(&file, &leaf.pem)?;
    print_line(format!("wrote {}", file.display()));
    if let Ok(id) = x509_id(&leaf.certificate) {
        print_line(format!("its id in ACLs: x509:{id}"));
    }
    let ca = directory.join(authority::CA_FILE);
    print_line(format!(
        "connect with: zebu shell --tls-ca {} --tls-cert {} -server HOST:2281",
        ca.display(),
        file.display()
    ));
    Ok(())
}
