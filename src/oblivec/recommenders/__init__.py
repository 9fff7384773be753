"""NCF, LightGCN, MultVAE and the yardsticks."""
