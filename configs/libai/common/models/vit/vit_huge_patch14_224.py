from .vit_tiny_patch16_224 import model

model.cfg.patch_size = 14
model.cfg.embed_dim = 1280
model.cfg.depth = 32
model.cfg.num_heads = 16
