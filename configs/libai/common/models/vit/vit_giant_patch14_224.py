from .vit_tiny_patch16_224 import model

model.cfg.patch_size = 14
model.cfg.embed_dim = 1408
model.cfg.depth = 40
model.cfg.num_heads = 16
model.cfg.mlp_ratio = 48 / 11
