// What every page is given.

import type { Lives } from "./live.js";
import type { Session } from "./session.js";

/** Who looks, and what is live. */
export interface PageProps {
  session: Session;
  live: Lives;
}
