//! How a place is reached and read: the options for buckets of S3, and the keys of encrypted backups.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use zebu_backup::core::target::Target;
use zebu_backup::encryption::{Identities, KeyedTarget};

use super::location::failure;
use super::units::parse_duration;
use crate::offline::Failure;

/// How to reach a bucket, s3://bucket/prefix. The keys come from the variables of AWS.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Buckets of S3")]
pub(super) struct AccessArguments {
    /// The address of the store, https://host:port [default: AWS_ENDPOINT_URL, or AWS itself]
    #[arg(long, value_name = "URL")]
    pub(super) s3_endpoint: Option<String>,

    /// The region of the bucket [default: AWS_REGION, or us-east-1]
    #[arg(long, value_name = "NAME")]
    pub(super) s3_region: Option<String>,

    /// Allow an endpoint without TLS: others on the network can read the backup and change it
    #[arg(long)]
    pub(super) s3_allow_http: bool,

    /// Name the bucket in the host, bucket.host, and not in the path
    #[arg(long)]
    pub(super) s3_virtual_hosted: bool,

    /// Authorities of the store in PEM, instead of those of the system
    #[arg(long, value_name = "FILE")]
    pub(super) s3_ca: Option<PathBuf>,

    /// How long the store may be silent before a request is sent again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(super) s3_timeout: Duration,

    /// The file with the key of an encrypted backup, from zebu backup key or age-keygen
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    pub(super) identity: Option<PathBuf>,
}

impl AccessArguments {
    /// A target whose encrypted objects can be read, if the user has named the key.
    pub(super) fn with_key(&self, target: Box<dyn Target>) -> Result<Box<dyn Target>, Failure> {
        let Some(path) = &self.identity else { return Ok(target) };
        let identities = Identities::read(path).map_err(failure)?;
        Ok(Box::new(KeyedTarget::new(target, identities)))
    }
}

#[cfg(feature = "s3")]
impl AccessArguments {
    /// The settings of a bucket.
    pub(super) fn settings(&self, bucket: &str, prefix: &str) -> zebu_backup::s3::S3Settings {
        use zebu_backup::s3::{BucketStyle, PlainHttp, S3Settings};
        S3Settings {
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            http: if self.s3_allow_http { PlainHttp::Allowed } else { PlainHttp::Refused },
            style: if self.s3_virtual_hosted { BucketStyle::VirtualHost } else { BucketStyle::Path },
            ca: self.s3_ca.clone(),
            patience: self.s3_timeout,
            ..S3Settings::new(bucket, prefix)
        }
    }
}
