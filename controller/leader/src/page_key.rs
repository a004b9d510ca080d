//! The key that page tokens are sealed with: made once in a cluster's life by whoever leads when it is first needed, read
//! from the store by all others and by every later life.

use controller_store::{Compare, Op};
use prost::Message;
use proto_rpc::PageKey;

use crate::{
    codec,
    error::{CorruptError, Refusal},
    handle::Handle,
    keys, records,
};

impl Handle {
    /// The cluster's key.
    ///
    /// # Errors
    /// The store's; and [`Refusal::Stopped`] where there is none yet and this controller does not lead.
    pub async fn page_key(&self) -> Result<PageKey, Refusal> {
        self.page_key.get_or_try_init(|| self.find_page_key()).await.cloned()
    }

    async fn find_page_key(&self) -> Result<PageKey, Refusal> {
        if let Some(key) = self.stored_page_key().await? {
            return Ok(key);
        }
        if !self.has_loop() {
            return Err(Refusal::Stopped { cause: "it follows another one" });
        }
        let made = PageKey::generate().map_err(|_| no_random())?;
        let record = records::PageKey { key: made.bytes().to_vec() };
        let absent = Compare::absent(keys::PAGE_KEY);
        self.fenced(vec![absent], vec![Op::put(keys::PAGE_KEY, record.encode_to_vec())]).await?;
        // Another call of this process may have been faster: what is stored counts.
        self.stored_page_key().await?.ok_or_else(no_random)
    }

    async fn stored_page_key(&self) -> Result<Option<PageKey>, Refusal> {
        let found = self.store().get(keys::PAGE_KEY.into()).await;
        let Some(kv) = found.map_err(|error| Refusal::read(&error))? else { return Ok(None) };
        let record: records::PageKey = codec::decode(&kv).map_err(Refusal::Corrupt)?;
        let key = PageKey::of_bytes(&record.key);
        key.map(Some).map_err(|error| Refusal::Corrupt(CorruptError::new(&kv.key, error)))
    }
}

fn no_random() -> Refusal {
    Refusal::Unreadable { cause: "no key for page tokens could be made".to_owned() }
}
