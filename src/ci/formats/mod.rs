//! Files any platform reads: JUnit, SARIF, Code Quality, dotenv.
