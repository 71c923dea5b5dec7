from .vit_tiny_patch16_224 import model

model.cfg.embed_dim = 1024
model.cfg.depth = 24
model.cfg.num_heads = 16
