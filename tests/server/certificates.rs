//! A certificate of its own for each test, and a client that trusts it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Files of a certificate, gone at the end.
pub struct Files(pub PathBuf);

impl Files {
    pub fn new(name: &str) -> (Files, CertificateDer<'static>) {
        let dir =
            std::env::temp_dir().join(format!("floorkeeper-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let files = Files(dir);
        let certificate = files.renew();
        (files, certificate)
    }

    pub fn cert(&self) -> PathBuf {
        self.0.join("cert.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.0.join("key.pem")
    }

    /// A new certificate, put in place as it is done: whole files, one after the other.
    pub fn renew(&self) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        replace(&self.key(), &made.signing_key.serialize_pem());
        replace(&self.cert(), &made.cert.pem());
        made.cert.der().clone()
    }

    pub fn settings(&self) -> [String; 2] {
        let set = |key: &str, path: PathBuf| format!("tls.{key}={:?}", path.display().to_string());
        [set("cert_file", self.cert()), set("key_file", self.key())]
    }
}

pub fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A client that trusts this certificate alone.
pub async fn connect(
    to: SocketAddr,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(to).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
